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
    check_error("1", "CEL runtime error: result of type int is not a bool");
    check_error("device.driver", "is not a bool");
    check_error("device.driver ==", "CEL compile error");
    check_error("nonsense(device)", "Undeclared reference to 'nonsense'");
    check_error(r#"device.driver > 1"#, "no matching overload");
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
    check_error(r#"quantity("10Mo").sign() == 1"#, "Error executing function 'quantity'");
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
    check_error(r#"device.driver.matches("(")"#, "CEL compile error: regex parse error");
    check_error(r#"device.driver.matches("(" + "")"#, "Error executing function 'matches'");
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
    check_error(&long, "operations within each other");
    let selects = format!("device{}", ".a".repeat(4_500));
    check_error(&selects, "operations within each other");
    check_error(&format!("{}true{}", "(".repeat(2_000), ")".repeat(2_000)), "operations within each other");
    check_error(&format!("{}true", "!".repeat(5_000)), "operations within each other");
    check_error(&format!("{}true", "true ? true : ".repeat(700)), "operations within each other");
    let nested = format!("{}true{}", "[1].all(a, ".repeat(8), ")".repeat(8));
    check_error(&nested, "comprehensions within each other");
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
        assert!(selectors.programs.len() >= 25, "those of one pod are kept");
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
    let program = Program::compile(&large, &library::environment(), Deadline::NEVER).unwrap();
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
    let compile = |deadline| Program::compile(&patterns, &library::environment(), deadline);
    assert!(matches!(compile(Deadline::after(&time, Duration::ZERO)), Err(CompileError::TimedOut)));
    assert!(compile(Deadline::after(&time, Duration::from_secs(1))).is_ok());
    let mut selectors = Selectors::default();
    let over = Deadline::after(&time, Duration::ZERO);
    assert_eq!(
        selectors.matches(&patterns, SelectorSubject { driver: "x7", device: &device() }, DeviceKey(0), over),
        None
    );
    assert_eq!(matches(&mut selectors, &patterns, "x7", 0), Ok(true), "it is no error that is kept");
}

/// kube-apiserver counts the characters of a pattern. The patterns are short, but large in compiled form.
#[test]
fn patterns_are_compiled_once_and_their_size_counts() {
    let patterns: Vec<String> = (0..245).map(|n| format!("device.driver.matches('x{n}.{{900}}')")).collect();
    check_error(&patterns.join("||"), "size limit");
    check_error(&format!("'{}'.matches('.{{1500}}')", "x".repeat(4_000)), "exceeds cost limit");
    let bytes = |pattern: &str| {
        let same = vec![format!("device.driver.matches('{pattern}')"); 150].join(" && ");
        Program::compile(&same, &library::environment(), Deadline::NEVER).unwrap().bytes()
    };
    let (small, large) = (bytes("^a"), bytes("^[a-z]{60}"));
    assert!(large < 300_000, "{large} bytes");
    assert!(large - small < 20_000, "what is compiled counts once: {large} bytes, with a small pattern {small}");
    check_error(&format!("device.driver.matches('a' + '{}')", "b".repeat(256)), "is longer than 256 bytes");
    check_error("device.driver.matches('(a{1000})' + '{1000}')", "size limit");
    let long = format!("'{}'.matches(device.driver)", "x".repeat(6_500));
    check_error(&long, "exceeds cost limit");
}
