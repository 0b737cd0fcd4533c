//! Expressions with the sources of their answers: the API reference of `CELDeviceSelector`, KEP-4381, and the
//! documentation page "Common Expression Language in Kubernetes".

use std::time::Duration;

use berth_framework::SchedulingTime;

use super::{program::MAX_LENGTH, *};

/// The device of the example in the API documentation of `CELDeviceSelector`, with additional fields.
fn device() -> Device {
    serde_json::from_str(
        r#"{"name":"gpu-0","attributes":{
            "model":{"string":"a100"}, "ext.example.com/family":{"string":"ampere"}, "numa":{"int":1},
            "ecc":{"bool":true}, "driverVersion":{"version":"1.4.2-rc.1"}, "indexes":{"string":"3,1,2"}},
          "capacity":{"modules":{"value":"3"}, "memory":{"value":"40Gi"}}}"#,
    )
    .unwrap()
}

fn matches(selectors: &mut Selectors, expression: &str, driver: &str, key: u64) -> SelectorResult {
    let subject = SelectorSubject { driver, device: &device() };
    let result = selectors.matches(expression, subject, DeviceKey(key), Deadline::NEVER);
    result.expect("there is no limit of time")
}

fn ask(expression: &str) -> SelectorResult {
    matches(&mut Selectors::default(), expression, "dra.example.com", 0)
}

#[track_caller]
fn check_true(expressions: &[&str]) {
    for expression in expressions {
        assert_eq!(ask(expression), Ok(true), "{expression}");
    }
}

#[track_caller]
fn check_error(expression: &str, expected: &str) {
    let error = ask(expression).unwrap_err().to_string();
    assert!(error.contains(expected), "{expression}: {error}");
}

/// API reference, CELDeviceSelector: the input's fields, and "an unknown prefix … an empty map will be returned".
#[test]
fn a_device_has_driver_attributes_and_capacity() {
    check_true(&[
        r#"device.driver == "dra.example.com""#,
        r#"device.attributes["dra.example.com"].model == "a100""#,
        r#"device.attributes["ext.example.com"].family == "ampere""#,
        r#"device.attributes["dra.example.com"].numa + 1 == 2"#,
        r#"device.attributes["dra.example.com"].ecc"#,
        r#"device.capacity["dra.example.com"].modules == quantity("3")"#,
        r#"device.capacity["dra.example.com"].memory.compareTo(quantity("40Gi")) == 0"#,
        "device.allowMultipleAllocations == false",
        r#"!has(device.attributes["dra.example.com"].nonsense)"#,
        r#"!has(device.attributes["unknown.example.com"].model)"#,
        r#"device.attributes["unknown.example.com"] == {}"#,
        r#""dra.example.com" in device.attributes && !("unknown.example.com" in device.attributes)"#,
        r#"size(device.attributes) == 2"#,
        r#"device.attributes.exists(domain, domain == "ext.example.com")"#,
        r#"device.attributes["dra.example.com"].exists(name, name == "numa")"#,
    ]);
}

/// API reference, CELDeviceSelector: "Any reference to an unknown field will cause an evaluation error", and the
/// robust form of the same test.
#[test]
fn an_unknown_field_is_an_error_unless_it_is_asked_for_first() {
    check_error(r#"device.attributes["dra.example.com"].nonsense == 1"#, "CEL runtime error: no such key: nonsense");
    check_error(r#"device.attributes["unknown.example.com"].model == "x""#, "CEL runtime error");
    assert_eq!(
        ask(r#"has(device.attributes["x.example.com"].model) && device.attributes["x.example.com"].model == "x""#),
        Ok(false)
    );
    check_true(&[r#"cel.bind(dra, device.attributes["dra.example.com"], has(dra.model) && dra.model == "a100")"#]);
    assert_eq!(ask(r#"device.attributes["dra.example.com"].?nonsense.orValue(0) == 1"#), Ok(false));
}

/// API reference, CELDeviceSelector: "It must evaluate to true … and false … Any other result is an error".
#[test]
fn anything_but_a_bool_is_an_error() {
    check_error("1", "CEL compile error: must evaluate to bool or the unknown type, not int");
    check_error("device.driver", "must evaluate to bool or the unknown type, not string");
    check_error("device.driver ==", "CEL compile error: compilation failed: ERROR: <input>:1:");
    let expected = "CEL compile error: compilation failed: ERROR: <input>:1:9: undeclared reference to 'nonsense' \
                    (in container '')\n | nonsense(device)\n | ........^";
    assert_eq!(ask("nonsense(device)").unwrap_err().to_string(), expected);
    let expected = "CEL compile error: compilation failed: ERROR: <input>:1:15: found no matching overload for '_>_' \
                    applied to '(string, int)'\n | device.driver > 1\n | ..............^";
    assert_eq!(ask("device.driver > 1").unwrap_err().to_string(), expected);
}

/// The type of an attribute is known when the expression runs. The texts are those of cel-go.
#[test]
fn an_attribute_of_a_wrong_type_is_an_error_when_the_expression_runs() {
    let mine = r#"device.attributes["dra.example.com"]"#;
    let conversion = "CEL runtime error: CEL result of type string could not be converted to bool: unsupported native \
                      conversion from string to 'bool'";
    check_error(&format!("{mine}.model"), conversion);
    check_error(&format!("{mine}.numa"), "result of type int could not be converted to bool");
    check_error(&format!("{mine}.model > 1"), "CEL runtime error: no such overload");
    check_error(&format!("{mine}.model + 1 == 2"), "CEL runtime error: no such overload");
    check_error(&format!("{mine}.numa.startsWith('a')"), "no such overload: startsWith(int, string)");
    check_error("[1][dyn(5)] == 1", "index out of bounds: 5");
    check_error("dyn(1).exists(x, x > 0)", "got 'types.Int', expected iterable type");
    check_error("1 / 0 == 1", "division by zero");
}

/// CEL specification, "Logical Operators": an error is absorbed by a side that decides.
#[test]
fn a_deciding_side_absorbs_an_error() {
    check_true(&[
        r#"device.attributes["dra.example.com"].nonsense == 1 || true"#,
        r#"!(device.attributes["dra.example.com"].nonsense == 1 && false)"#,
    ]);
}

/// "Common Expression Language in Kubernetes", quantity library.
#[test]
fn quantities_compare_and_compute() {
    check_true(&[
        r#"quantity("500000G").isInteger() && !quantity("50k").sub(quantity("0.5")).isInteger()"#,
        r#"quantity("50k").asInteger() == 50000"#,
        r#"quantity("50m").asApproximateFloat() == 0.05"#,
        r#"quantity("-5").sign() == -1 && quantity("0").sign() == 0"#,
        r#"quantity("200M").compareTo(quantity("0.2G")) == 0"#,
        r#"quantity("150Mi").isGreaterThan(quantity("100Mi")) && quantity("50M").isLessThan(quantity("100M"))"#,
        r#"quantity("50k").add(quantity("20")) == quantity("50020") && quantity("50k").add(20) == quantity("50020")"#,
        r#"quantity("50k").sub(20000) == quantity("30k")"#,
        r#"isQuantity("1.3Gi") && !isQuantity("Three")"#,
        r#"device.capacity["dra.example.com"].memory.isGreaterThan(quantity("10Gi"))"#,
    ]);
    check_true(&[r#"sign(quantity("-5")) == -1"#]);
    check_error(r#"quantity("10Mo").sign() == 1"#, "CEL runtime error: quantities must match the regular expression");
    check_error(r#"quantity("0.5").asInteger() == 0"#, "cannot convert value to integer");
}

/// "Common Expression Language in Kubernetes", semver library; precedence from semver.org, item 11.
#[test]
fn versions_compare_by_precedence() {
    check_true(&[
        r#"device.attributes["dra.example.com"].driverVersion.isLessThan(semver("1.4.2"))"#,
        r#"device.attributes["dra.example.com"].driverVersion.isGreaterThan(semver("1.4.2-alpha.9"))"#,
        r#"device.attributes["dra.example.com"].driverVersion == semver("1.4.2-rc.1")"#,
        r#"semver("1.2.3").major() == 1 && semver("1.2.3").minor() == 2 && semver("1.2.3").patch() == 3"#,
        r#"semver("1.2.3").compareTo(semver("1.2.3+build")) == 0 && semver("10.0.0").compareTo(semver("9.9.9")) == 1"#,
        r#"isSemver("1.0.0") && !isSemver("1.0") && !isSemver("v1.0.0") && !isSemver("01.0.0")"#,
        r#"isSemver("v01.1", true) && semver("v01.01", true) == semver("1.1.0") && !isSemver("v", true)"#,
        r#"semver("v01.02.03-rc.1", true) == semver("1.2.3-rc.1") && semver("1.2.00", true) == semver("1.2.0")"#,
        r#"!isSemver("1.2-rc.1", true) && !isSemver("1+build", true)"#,
    ]);
    check_error(r#"semver("Three") == semver("3.0.0")"#, "invalid semantic version");
}

/// "Common Expression Language in Kubernetes", list, regex and set libraries; cel-go's string extension.
#[test]
fn texts_lists_and_sets_have_functions() {
    check_true(&[
        r#"device.attributes["dra.example.com"].model.matches("^a[0-9]+$") && matches("abc", "b")"#,
        r#""abc 123".find("[0-9]+") == "123" && "abc".find("[0-9]+") == """#,
        r#""1 2 3".findAll("[0-9]", 2) == ["1", "2"] && size("1 2 3".findAll("[0-9]")) == 3"#,
        r#"device.attributes["dra.example.com"].indexes.split(",").exists(i, int(i) == 3)"#,
        r#""A100".lowerAscii() == "a100" && "a-b".replace("-", "_") == "a_b" && "abc".substring(1) == "bc""#,
        r#"[1, 2, 2].isSorted() && ![2, 1].isSorted() && [1, 2, 3].sum() == 6 && [3, 1].min() == 1 && [3, 1].max() == 3"#,
        r#"[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && [1].indexOf(9) == -1"#,
        r#"sets.contains([1, 2], [1]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [2])"#,
        r#""x".startsWith("x") && "x".endsWith("x") && "xyz".contains("y") && "abc".charAt(0) == "a""#,
    ]);
    let expected = "CEL compile error: compilation failed: ERROR: <input>:1:23: invalid matches argument\n | ";
    check_error(r#"device.driver.matches("(")"#, expected);
    check_error(
        r#"device.driver.find("(") == "a""#,
        "CEL compile error: program instantiation failed: regex parse error",
    );
    check_error(r#"device.driver.matches("(" + "")"#, "CEL runtime error: regex parse error");
}

/// "Common Expression Language in Kubernetes", IP address and CIDR libraries; the examples of their documentation in
/// `k8s.io/apiserver/pkg/cel/library`.
#[test]
fn addresses_and_networks_have_functions() {
    check_true(&[
        r#"isIP("127.0.0.1") && isIP("::1") && !isIP("127.0.0.256") && !isIP(":::1") && !isIP("01.0.0.1")"#,
        r#"!isIP("::ffff:1.2.3.4") && !isIP("fe80::1%eth0") && !isIP("")"#,
        r#"ip("127.0.0.1").family() == 4 && ip("::1").family() == 6 && string(ip("2001:DB8::ABCD")) == "2001:db8::abcd""#,
        r#"ip.isCanonical("2001:db8::abcd") && !ip.isCanonical("2001:db8::0:0:0:abcd") && ip("::0") == ip("::")"#,
        r#"ip("0.0.0.0").isUnspecified() && ip("::").isUnspecified() && !ip("::1").isUnspecified()"#,
        r#"ip("127.1.2.3").isLoopback() && ip("::1").isLoopback() && !ip("192.168.0.1").isLoopback()"#,
        r#"ip("224.0.0.1").isLinkLocalMulticast() && !ip("224.0.1.1").isLinkLocalMulticast()"#,
        r#"ip("ff02::1").isLinkLocalMulticast() && !ip("fd00::1").isLinkLocalMulticast()"#,
        r#"ip("169.254.169.254").isLinkLocalUnicast() && ip("fe80::1").isLinkLocalUnicast()"#,
        r#"ip("192.168.0.1").isGlobalUnicast() && ip("2001:db8::abcd").isGlobalUnicast()"#,
        r#"!ip("255.255.255.255").isGlobalUnicast() && !ip("ff00::1").isGlobalUnicast()"#,
        r#"isCIDR("192.168.0.0/16") && isCIDR("::1/128") && !isCIDR("192.168.0.0/33") && !isCIDR("::1/129")"#,
        r#"!isCIDR("10.0.0.0") && !isCIDR("10.0.0.0/08") && !isCIDR("10.0.0.0/+8") && !isCIDR("10.0.0.0/")"#,
        r#"cidr("192.168.0.0/24").containsIP(ip("192.168.0.1")) && !cidr("192.168.0.0/24").containsIP("192.168.1.1")"#,
        r#"cidr("192.168.0.0/16").containsCIDR(cidr("192.168.10.0/24")) && cidr("::/0").containsCIDR("2001:db8::/32")"#,
        r#"!cidr("192.168.1.0/24").containsCIDR("192.168.2.0/24") && !cidr("10.0.0.0/24").containsCIDR("10.0.0.0/8")"#,
        r#"!cidr("0.0.0.0/0").containsIP("::1") && cidr("192.168.0.1/24").ip() == ip("192.168.0.1")"#,
        r#"cidr("192.168.0.1/24").masked() == cidr("192.168.0.0/24") && cidr("10.1.2.3/0").masked() == cidr("0.0.0.0/0")"#,
        r#"cidr("192.168.0.1/24") != cidr("192.168.0.1/24").masked() && cidr("::1/128").prefixLength() == 128"#,
        r#"string(cidr("2001:DB8::/32")) == "2001:db8::/32""#,
    ]);
    check_error(r#"ip("nonsense").family() == 4"#, "CEL runtime error: invalid IP address");
    check_error(r#"cidr("10.0.0.0/8").containsIP("nonsense")"#, "CEL runtime error: invalid IP address");
}

/// "Common Expression Language in Kubernetes", URL library; the examples of `k8s.io/apiserver/pkg/cel/library/urls.go`.
#[test]
fn urls_have_parts() {
    check_true(&[
        r#"isURL("https://user:pass@example.com:80/path?query=val#fragment") && isURL("/absolute-path")"#,
        r#"!isURL("https://a:b:c/") && !isURL("../relative-path") && !isURL("")"#,
        r#"url("/path").getScheme() == "" && url("HTTPS://example.com/").getScheme() == "https""#,
        r#"url("https://example.com:80/").getHost() == "example.com:80" && url("https://[::1]/").getHost() == "[::1]""#,
        r#"url("https://user:pass@[::1]:80/").getHost() == "[::1]:80" && url("/path").getHost() == """#,
        r#"url("https://[::1]:80/").getHostname() == "::1" && url("https://127.0.0.1:80/").getHostname() == "127.0.0.1""#,
        r#"url("https://example.com:80/").getPort() == "80" && url("https://example.com/").getPort() == """#,
        r#"url("https://example.com/path with spaces/").getEscapedPath() == "/path%20with%20spaces/""#,
        r#"url("https://example.com").getEscapedPath() == "" && url("//host/path").getHost() == "host""#,
        r#"url("https://example.com/path?k1=a&k2=b&k2=c").getQuery() == {"k1": ["a"], "k2": ["b", "c"]}"#,
        r#"url("/path?key with spaces=a+b%20c&;&x").getQuery() == {"key with spaces": ["a b c"], "x": [""]}"#,
        r#"url("https://example.com/path?").getQuery() == {} && url("/path?a=b#c").getQuery()["a"] == ["b"]"#,
        r#"url("mailto:a@example.com").getScheme() == "mailto" && url("/a") == url("/a") && url("/a") != url("/b")"#,
    ]);
    let expected = "CEL runtime error: URL parse error during conversion from string: parse \"https://a:b:c/\": invalid port \
                    \":b:c\" after host";
    check_error(r#"url("https://a:b:c/").getPort() == """#, expected);
    check_error(r#"url("/path#%zz").getPort() == """#, "parse \"/path#%zz\": invalid URL escape \"%zz\"");
}

/// `k8s.io/apiserver/pkg/cel/library/format.go`.
#[test]
fn named_formats_validate() {
    check_true(&[
        r#"!format.dns1123Label().validate("my-label-name").hasValue()"#,
        r#"format.dns1123Label().validate("a.b").value() == ["must not contain dots"]"#,
        r#"format.named("dns1123Label").value() == format.dns1123Label() && !format.named("nonsense").hasValue()"#,
        r#"format.named("uuid").optMap(f, f.validate("1").orValue([])) == optional.of(["does not match the UUID format"])"#,
        r#"format.uri().validate("../relative-path").value() == ['parse "../relative-path": invalid URI for request']"#,
        r#"format.date().validate("2021-02-29") == optional.of(["invalid date"])"#,
        r#"format.datetime().validate("2021-02-28T12:00:00Z") == optional.none()"#,
        r#"[format.byte(), format.labelValue(), format.dns1035Label()].all(f, !f.validate("aGVsbG8").hasValue()) == false"#,
    ]);
    check_error(r#"format.nonsense().validate("a").hasValue()"#, "undeclared reference to 'nonsense'");
}

/// KEP-5491 and `includesFunc` in `k8s.io/dynamic-resource-allocation/cel/compile.go`.
#[test]
fn an_attribute_includes_itself_or_its_elements() {
    let mine = r#"device.attributes["dra.example.com"]"#;
    let of_device = [
        format!(r#"{mine}.model.includes("a100") && !{mine}.model.includes("h100") && {mine}.ecc.includes(true)"#),
        format!(r#"{mine}.driverVersion.includes(semver("1.4.2-rc.1")) && !{mine}.numa.includes("1")"#),
    ];
    of_device.iter().for_each(|expression| check_true(&[expression]));
    check_true(&["[1, 2].includes(2) && ![1].includes(2) && lists.range(49).includes(47)"]);
    let expected = "CEL runtime error: 'includes' function cannot be applied to lists longer than 48 values";
    check_error("lists.range(49).includes(48)", expected);
}

/// CEL specification, standard definitions, "Timestamps and Durations".
#[test]
fn durations_and_timestamps_compute_and_have_parts() {
    check_true(&[
        r#"duration("1h30m") == duration("90m") && duration("1m") > duration("59s") && -dyn(duration("1s")) < duration("0s")"#,
        r#"duration("1m") + duration("1s") == duration("61s") && duration("1m") - duration("1s") == duration("59s")"#,
        r#"duration("90m").getHours() == 1 && duration("90m").getMinutes() == 90 && duration("1.5s").getSeconds() == 1"#,
        r#"duration("1.5s").getMilliseconds() == 1500 && string(duration("90s")) == "90s" && string(duration("1500ms")) == "1.5s""#,
        r#"timestamp("2024-02-29T23:30:00Z") < timestamp("2024-03-01T00:00:00Z")"#,
        r#"timestamp("2024-01-01T02:00:00+02:00") == timestamp("2024-01-01T00:00:00Z") && timestamp(0) == timestamp("1970-01-01T00:00:00Z")"#,
        r#"timestamp("2024-01-01T00:00:00Z") + duration("24h") == timestamp("2024-01-02T00:00:00Z")"#,
        r#"duration("24h") + timestamp("2024-01-01T00:00:00Z") == timestamp("2024-01-02T00:00:00Z")"#,
        r#"timestamp("2024-01-02T00:00:00Z") - timestamp("2024-01-01T00:00:00Z") == duration("24h")"#,
        r#"timestamp("2024-01-02T00:00:00Z") - duration("24h") == timestamp("2024-01-01T00:00:00Z")"#,
        r#"timestamp("2024-03-01T12:34:56.789Z").getFullYear() == 2024 && timestamp("2024-03-01T12:34:56.789Z").getMonth() == 2"#,
        r#"timestamp("2024-03-01T12:34:56.789Z").getDate() == 1 && timestamp("2024-03-01T12:34:56.789Z").getDayOfMonth() == 0"#,
        r#"timestamp("2024-03-01T12:34:56.789Z").getDayOfYear() == 60 && timestamp("2024-03-03T00:00:00Z").getDayOfWeek() == 0"#,
        r#"timestamp("2024-03-01T12:34:56.789Z").getHours() == 12 && timestamp("2024-03-01T12:34:56.789Z").getMinutes() == 34"#,
        r#"timestamp("2024-03-01T12:34:56.789Z").getSeconds() == 56 && timestamp("2024-03-01T12:34:56.789Z").getMilliseconds() == 789"#,
        r#"timestamp("2024-03-01T00:30:00Z").getHours("-02:00") == 22 && timestamp("2024-03-01T00:30:00Z").getDate("-02:00") == 29"#,
        r#"string(timestamp("2024-03-01T00:30:00Z")) == "2024-03-01T00:30:00Z" && int(timestamp("1970-01-01T00:01:00Z")) == 60"#,
        r#"int(duration("1s")) == 1000000000 && duration(duration("1s")) == duration("1s") && timestamp(timestamp(0)) == timestamp(0)"#,
    ]);
    check_error(r#"timestamp("yesterday") == timestamp(0)"#, "ERROR: <input>:1:11: invalid timestamp argument");
    check_error(r#"duration("1 hour") == duration("1h")"#, "ERROR: <input>:1:10: invalid duration argument");
    check_error(r#"timestamp("yester" + "day") == timestamp(0)"#, "CEL runtime error");
    check_error(r#"duration("1 " + "hour") == duration("1h")"#, "CEL runtime error: invalid duration");
    check_error(r#"timestamp(0).getHours("Europe/Berlin") == 1"#, "unknown time zone Europe/Berlin");
    check_error(r#"duration("1h") > 1"#, "no matching overload");
    check_error(r#"duration("200000h") + duration("2400000h") > duration("0s")"#, "out of range");
}

/// cel-go's extension for lists and its functions of optional values.
#[test]
fn lists_are_sorted_and_cut() {
    check_true(&[
        r#"[3, 1, 2].sort() == [1, 2, 3] && ["bb", "a"].sortBy(text, size(text)) == ["a", "bb"]"#,
        r#"[1, 2, 3].slice(1, 3) == [2, 3] && [[1], [2, 3]].flatten() == [1, 2, 3] && [1, 1, 2].distinct() == [1, 2]"#,
        r#"[1, 2].reverse() == [2, 1] && lists.range(3) == [0, 1, 2]"#,
        r#"[1, 2].first().value() == 1 && [1, 2].last().orValue(0) == 2 && !dyn([]).first().hasValue()"#,
        r#"[optional.of(1), optional.none()].unwrapOpt() == [1] && optional.unwrap([optional.of(2)]) == [2]"#,
    ]);
}

/// cel-go's extension for comprehensions over two variables.
#[test]
fn comprehensions_have_two_variables() {
    let attributes = r#"cel.bind(mine, device.attributes["dra.example.com"], "#;
    let of_device = [
        format!(r#"{attributes}mine.exists(name, value, name == "numa" && value == 1))"#),
        format!(r#"{attributes}!mine.all(name, value, name != "model" || value == "h100"))"#),
        format!(r#"{attributes}mine.transformList(name, value, name == "model", value) == ["a100"])"#),
        r#"device.attributes.all(domain, of_domain, of_domain.all(name, value, size(name) > 0))"#.to_owned(),
        r#"device.attributes.existsOne(domain, of_domain, domain == "ext.example.com")"#.to_owned(),
        r#"device.capacity.exists(domain, of_domain, of_domain.exists(name, value, value == quantity("3")))"#
            .to_owned(),
    ];
    of_device.iter().for_each(|expression| check_true(&[expression]));
    check_true(&[
        "[5, 6].all(index, element, element == index + 5) && [5, 6].exists_one(index, element, index == 1)",
        "[5, 6].transformList(index, element, index * element) == [0, 6]",
        r#"{"a": 1, "b": 2}.transformMap(key, value, value > 1, value * 10) == {"b": 20}"#,
        r#"{"a": "x", "b": "y"}.transformMapEntry(key, value, {value: key}) == {"x": "a", "y": "b"}"#,
        "[1].all(i, x, [2].all(j, y, i == j && x + 1 == y))",
        "![1, 2].exists(i, x, x / 0 == 1 && false) && [0, 1].exists(i, x, 1 / x == 1)",
    ]);
    check_error(r#"{"a": 1, "b": 1}.transformMapEntry(key, value, {value: key}) == {}"#, "a key occurs twice");
    check_error("[1].all(i + 1, x, true)", "argument must be a simple name");
    check_error("[1].all(x, x, true)", "duplicate variable name: x");
}

#[test]
fn functions_of_large_lists_are_refused() {
    let list = format!("[{}0]", "0,".repeat(2_000));
    check_error(&format!("sets.contains({list}, {list})"), "exceeds cost limit");
    check_error(&format!("size({list}.distinct()) == 1"), "exceeds cost limit");
    check_error("size(lists.range(1000000).map(n, n)) > 0", "exceeds cost limit");
    check_error(r#"size(lists.range(device.attributes["dra.example.com"].numa)) == 1"#, "exceeds cost limit");
    for variable in ["lists", "sets"] {
        let of_variable = format!("cel.bind({variable}, lists.range(300000), size({variable}.distinct()) > 0)");
        check_error(&of_variable, "exceeds cost limit");
        check_true(&[&format!("cel.bind({variable}, [2, 1], {variable}.sort() == [1, 2])")]);
    }
    check_error("size(.lists.range(1000000)) > 0", "exceeds cost limit");
    check_error(&format!(".sets.contains({list}, {list})"), "exceeds cost limit");
    check_true(&["size(.lists.range(3)) == 3", r#".matches(device.driver, "^dra") && .sets.contains([1], [1])"#]);
    let doubled = (0..30).fold("size(l) > 0".to_owned(), |rest, _| format!("cel.bind(l, l + l, {rest})"));
    check_error(&format!("cel.bind(l, [[]], {doubled})"), "exceeds cost limit");
    check_true(&["[1, 2].sum() == 3"]);
    let long = "a".repeat(5_000);
    let paths = r#".map(x, url("/" + x).getEscapedPath())"#.repeat(8);
    check_error(&format!("['{long}']{paths}.size() > 0"), "exceeds cost limit");
    check_error(&format!("lists.range(20).all(x, format.uri().validate('{long}').hasValue())"), "exceeds cost limit");
    check_error(&format!("url('/?{long}').getQuery().all(k, ['{long}'].all(x, x == k)) "), "exceeds cost limit");
    check_error(r#"["a", "b"].sum() == "ab""#, "no matching overload");
    let nested = format!("{}true{}", "device.attributes.all(k, v, ".repeat(5), ")".repeat(5));
    check_error(&nested, "too complex");
    assert_eq!(ask("device.attributes.all(k, v, device.attributes.all(l, w, true))"), Ok(true));
}

#[test]
fn what_would_run_too_long_is_refused() {
    let all = "device.attributes.all(a, ";
    let nested = format!("{}true{}", all.repeat(5), ")".repeat(5));
    check_error(&nested, "CEL compile error: too complex");
    let twice = format!("{}true{}", all.repeat(2), ")".repeat(2));
    assert_eq!(ask(&twice), Ok(true));
    let exploding = format!(r#"size("aaaaaaaaaa"{}) > 0"#, r#".replace("a", "aaaaaaaaaa")"#.repeat(9));
    check_error(&exploding, "too complex");
    check_error(&format!("true{}", " ".repeat(MAX_LENGTH)), "longer than");
    check_error(r#"device.driver.matches("(a{1000}){1000}")"#, "size limit");
}

/// The API server's parser accepts each of these. They would cost the scheduler its stack, its memory or minutes.
#[test]
fn expressions_made_to_hurt_are_refused_before_they_run() {
    let doubling = format!(r#"["x"]{}.size() > 0"#, ".map(x, x + x)".repeat(40));
    check_error(&doubling, "exceeds cost limit");
    let squaring = format!(r#"["xx"]{}.size() > 0"#, ".map(x, x.replace('x', x))".repeat(40));
    check_error(&squaring, "exceeds cost limit");
    let long = format!("0{} == 0", "+0".repeat(4_500));
    check_error(&long, "nested operations");
    let selects = format!("device{}", ".a".repeat(4_500));
    check_error(&selects, "nested operations");
    check_error(&format!("{}true{}", "(".repeat(2_000), ")".repeat(2_000)), "nested operations");
    check_error(&format!("{}true", "!".repeat(5_000)), "nested operations");
    check_error(&format!("{}true", "true ? true : ".repeat(700)), "nested operations");
    let nested = format!("{}true{}", "[1].all(a, ".repeat(8), ")".repeat(8));
    check_error(&nested, "nested comprehensions");
    let patterns = r#"device.attributes.all(a, device.attributes.all(b, device.driver.matches(a + b)))"#;
    check_error(patterns, "exceeds cost limit");
    check_error(&format!("device.driver.matches('{}a{}')", "(".repeat(100), ")".repeat(100)), "nest");
}

#[test]
fn usual_expressions_stay_far_below_the_limits() {
    check_true(&[
        r#"device.attributes["dra.example.com"].map(name, name + "-x").filter(n, n != "").map(n, n).size() > 0"#,
        r#"device.attributes.exists(a, device.attributes.exists(b, a.startsWith("dra") || b == a))"#,
        r#"["a100", "h100"].exists(m, device.attributes["dra.example.com"].model.matches("^" + m + "$"))"#,
    ]);
    let many = (0..120).map(|n| format!(r#"device.driver == "d{n}""#)).collect::<Vec<_>>().join(" || ");
    assert_eq!(ask(&many), Ok(false));
}

/// The scheduling thread has 4 MiB.
#[test]
fn the_deepest_expressions_that_are_taken_leave_stack_enough() {
    let (deep, half) = (nesting::MAX_DEPTH - 10, nesting::MAX_DEPTH / 2 - 5);
    let sum = format!("0{} == 0", "+0".repeat(deep));
    let conditions = format!("{}true", "false ? false : ".repeat(half));
    let lists = format!("size({}1{}) == 1", "[".repeat(half), "]".repeat(half));
    let loops = format!("{}true{}", "[1].all(a, ".repeat(5), ")".repeat(5));
    let ask = move || [sum, lists, loops, conditions].iter().for_each(|expression| check_true(&[expression]));
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(ask).expect("a thread");
    thread.join().expect("stack enough");
}

#[test]
fn answers_are_remembered_for_a_device() {
    let mut selectors = Selectors::default();
    let expression = "device.driver == 'd'";
    assert_eq!(matches(&mut selectors, expression, "d", 1), Ok(true));
    assert_eq!(matches(&mut selectors, expression, "d", 1), Ok(true));
    assert_eq!(matches(&mut selectors, expression, "e", 2), Ok(false));
    assert_eq!((selectors.programs.len(), selectors.results.len()), (1, 2));
}

/// Claims may have any number of selectors, and each may take a megabyte.
#[test]
fn what_is_kept_of_large_selectors_is_bounded_and_freed() {
    let mut selectors = Selectors::default();
    for pod in 0..4 {
        for n in 0..25 {
            let large = format!("device.driver.matches('p{pod}-{n}.{{1500}}')");
            assert_eq!(matches(&mut selectors, &large, "d", pod), Ok(false));
        }
        let request = "x".repeat(2 << 20) + &pod.to_string();
        assert_eq!(selectors.selection(Some(request.clone())), selectors.selection(Some(request)));
        assert!(selectors.programs.bytes() <= MAX_PROGRAM_BYTES && selectors.selections.bytes() <= MAX_SELECTION_BYTES);
        assert!(selectors.programs.len() >= 25, "the cache keeps the programs of one pod");
    }
    for minutes in [5, 6, 10] {
        selectors.free_unused(Time(minutes * 60_000));
    }
    let kept = [selectors.programs.bytes(), selectors.results.bytes(), selectors.selections.bytes()];
    assert_eq!(kept, [0; 3]);
}

/// The largest possible expression without patterns. 2,560 such expressions took 1.2 GB in a measurement.
#[test]
fn an_expression_counts_with_all_its_nodes() {
    let large = format!("device.driver == 'd'{}", " || 1 == 2".repeat(920));
    let program = Program::compile(&large, &library::environment(), false, Deadline::NEVER).unwrap();
    assert!((300_000..600_000).contains(&program.bytes()), "{} bytes", program.bytes());
}

/// The error of each device contains a key that the expression makes.
#[test]
fn a_reason_has_a_length() {
    let long = format!("device.attributes['x']['{}'] == 1", "ä".repeat(4_000));
    let broken = format!("nonsense({}", "'x', ".repeat(1_500));
    let dynamic = format!("device.driver.matches('{}' + '(')", "ä".repeat(100));
    for expression in [long, broken, dynamic] {
        let reason = ask(&expression).unwrap_err().to_string();
        assert!(reason.chars().count() < MAX_REASON + 30, "{reason}");
    }
}

/// Large patterns take milliseconds each.
#[test]
fn compiling_ends_with_the_time_of_the_search() {
    let patterns = (0..100).map(|n| format!("device.driver.matches('x{n}')")).collect::<Vec<_>>().join(" || ");
    let time = SchedulingTime::default();
    let compile = |deadline| Program::compile(&patterns, &library::environment(), false, deadline);
    assert!(matches!(compile(Deadline::after(&time, Duration::ZERO)), Err(CompileError::TimedOut)));
    assert!(compile(Deadline::after(&time, Duration::from_secs(1))).is_ok());
    let mut selectors = Selectors::default();
    let over = Deadline::after(&time, Duration::ZERO);
    assert_eq!(
        selectors.matches(&patterns, SelectorSubject { driver: "x7", device: &device() }, DeviceKey(0), over),
        None
    );
    assert_eq!(matches(&mut selectors, &patterns, "x7", 0), Ok(true), "the kept result is not an error");
}

/// kube-apiserver counts the characters of a pattern. The patterns are short, but large in compiled form.
#[test]
fn patterns_are_compiled_once_and_their_size_counts() {
    let patterns: Vec<String> = (0..245).map(|n| format!("device.driver.matches('x{n}.{{900}}')")).collect();
    check_error(&patterns.join("||"), "size limit");
    check_error(&format!("'{}'.matches('.{{1500}}')", "x".repeat(4_000)), "exceeds cost limit");
    let bytes = |pattern: &str| {
        let same = vec![format!("device.driver.matches('{pattern}')"); 150].join(" && ");
        Program::compile(&same, &library::environment(), false, Deadline::NEVER).unwrap().bytes()
    };
    let (small, large) = (bytes("^a"), bytes("^[a-z]{60}"));
    assert!(large < 300_000, "{large} bytes");
    assert!(large - small < 20_000, "equal patterns count once: {large} bytes, and {small} bytes with a small pattern");
    check_error(&format!("device.driver.matches('a' + '{}')", "b".repeat(256)), "is longer than 256 bytes");
    check_error("device.driver.matches('(a{1000})' + '{1000}')", "size limit");
    let long = format!("'{}'.matches(device.driver)", "x".repeat(6_500));
    check_error(&long, "exceeds cost limit");
}
