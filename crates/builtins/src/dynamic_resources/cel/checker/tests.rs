//! Expressions with what cel-go's checker finds in them, in its words.

use super::*;
use crate::dynamic_resources::cel::library;

fn check_text(expression: &str, with_lists: bool) -> Result<(), String> {
    let (parsed, source) = library::environment().parser().parse_with_source_info(expression).unwrap();
    check(&parsed, with_lists).map_err(|error| match error {
        CheckError::Mistakes(mistakes) => of_mistakes(expression, &source, &mistakes),
        CheckError::Result(of_result) => format!("result: {of_result}"),
    })
}

#[track_caller]
fn check_correct(expressions: &[&str]) {
    for expression in expressions {
        for with_lists in [false, true] {
            assert_eq!(check_text(expression, with_lists), Ok(()), "{expression}");
        }
    }
}

/// Each mistake is a column and a message. All are in one line.
#[track_caller]
fn check_mistakes(expression: &str, expected: &[(usize, &str)]) {
    let mistakes: Vec<String> = expected
        .iter()
        .map(|(column, message)| {
            let mark = format!("{}^", ".".repeat(column - 1));
            format!("ERROR: <input>:1:{column}: {message}\n | {expression}\n | {mark}")
        })
        .collect();
    assert_eq!(check_text(expression, false), Err(mistakes.join("\n")), "{expression}");
}

#[test]
fn names_and_fields_must_be_declared() {
    check_mistakes("devise.driver == 'a'", &[(1, "undeclared reference to 'devise' (in container '')")]);
    check_mistakes("device.drivr == 'a'", &[(7, "undefined field 'drivr'")]);
    check_mistakes("has(device.drivr)", &[(4, "undefined field 'drivr'")]);
    check_mistakes("device.driver.name == 'a'", &[(14, "type 'string' does not support field selection")]);
    check_mistakes("device.?drivr.hasValue()", &[(7, "undefined field 'drivr'")]);
    check_mistakes(
        "a && nonsense(b)",
        &[
            (1, "undeclared reference to 'a' (in container '')"),
            (14, "undeclared reference to 'nonsense' (in container '')"),
            (15, "undeclared reference to 'b' (in container '')"),
        ],
    );
    check_mistakes(
        "format.nonsense()",
        &[
            (1, "undeclared reference to 'format' (in container '')"),
            (16, "undeclared reference to 'nonsense' (in container '')"),
        ],
    );
    check_mistakes("nonsense{a: 1} == 1", &[(9, "undeclared reference to 'nonsense' (in container '')")]);
    check_mistakes("[1].exists(x, true) && x", &[(24, "undeclared reference to 'x' (in container '')")]);
}

#[test]
fn arguments_must_suit_an_overload() {
    let overload = |of: &str, applied: &str| format!("found no matching overload for '{of}' applied to '{applied}'");
    let check = |expression: &str, column: usize, of: &str, applied: &str| {
        check_mistakes(expression, &[(column, overload(of, applied).as_str())]);
    };
    check("device.driver > 1", 15, "_>_", "(string, int)");
    check("device.driver == 1", 15, "_==_", "(string, int)");
    check("1 == 1.0", 3, "_==_", "(int, double)");
    check("device.driver.startsWith(1)", 25, "startsWith", "string.(int)");
    check("size(1) == 1", 5, "size", "(int)");
    check("device.capacity['a'].b > quantity('1')", 24, "_>_", "(kubernetes.Quantity, kubernetes.Quantity)");
    check("device.capacity['a'].b.isGreaterThan(1)", 37, "isGreaterThan", "kubernetes.Quantity.(int)");
    check("device.attributes[1] == {}", 18, "_[_]", "(map(string, map(string, any)), int)");
    check("-duration('1s') < duration('0s')", 1, "-_", "(duration)");
    check("['a'].sum() == 'a'", 10, "sum", "list(string).()");
    check("'abc'.reverse() == 'cba'", 14, "reverse", "string.()");
    check("1 in [timestamp(0)]", 3, "@in", "(int, list(timestamp))");
    check("!device.driver", 1, "!_", "(string)");
    check("format.uri().validate(1).hasValue()", 22, "validate", "kubernetes.NamedFormat.(int)");
    check("null == 'a'", 6, "_==_", "(null, string)");
}

#[test]
fn operands_of_logic_elements_and_ranges_have_types() {
    check_mistakes("true && device.driver", &[(15, "expected type 'bool' but found 'string'")]);
    check_mistakes("[1, 'a'].size() == 2", &[(5, "expected type 'int' but found 'string'")]);
    check_mistakes("{'a': 1, 'b': true}.size() == 2", &[(15, "expected type 'int' but found 'bool'")]);
    check_mistakes("[?1].size() == 1", &[(3, "expected type 'optional_type(int)' but found 'int'")]);
    check_mistakes(
        "{'a': 1, 2: true}.size() == 2",
        &[(10, "expected type 'string' but found 'int'"), (13, "expected type 'int' but found 'bool'")],
    );
    check_mistakes("[1, dyn('a')].size() == 2", &[(8, "expected type 'int' but found 'dyn'")]);
    check_mistakes("['a', device.attributes['b'].c].size() == 2", &[(29, "expected type 'string' but found 'any'")]);
    let range = "cannot be range of a comprehension (must be list, map, or dynamic)";
    let of_text = format!("expression of type 'string' {range}");
    check_mistakes("'a'.exists(x, x == 'a')", &[(1, of_text.as_str())]);
    check_mistakes("'a'.exists(x, y, x == y)", &[(1, of_text.as_str())]);
    check_mistakes("[1].exists(x, 'a')", &[(15, "expected type 'bool' but found 'string'")]);
    check_mistakes("duration('1 hour') > duration('1h')", &[(10, "invalid duration argument")]);
    check_mistakes("timestamp('today') > timestamp(0)", &[(11, "invalid timestamp argument")]);
}

/// Attributes may be lists with the gate DRAListTypeAttributes, and in 1.37.
#[test]
fn an_attribute_is_of_any_type_or_of_a_type_that_is_known_later() {
    let of_list = "device.attributes['a'].b.exists(x, x > 0)";
    assert_eq!(check_text(of_list, true), Ok(()));
    let mistake = "expression of type 'any' cannot be range of a comprehension (must be list, map, or dynamic)";
    assert!(check_text(of_list, false).unwrap_err().starts_with(&format!("ERROR: <input>:1:23: {mistake}")));
    assert_eq!(check_text("dyn(true)", true), Ok(()));
    assert_eq!(check_text("dyn(true)", false), Err("result: dyn".to_owned()));
    assert_eq!(check_text("device.attributes['a'].b.c", false), Err("result: dyn".to_owned()));
}

#[test]
fn a_result_must_be_a_bool() {
    let result = |expression: &str| check_text(expression, false).unwrap_err();
    assert_eq!(result("1"), "result: int");
    assert_eq!(result("device.driver"), "result: string");
    assert_eq!(result("device"), "result: kubernetes.DRADevice");
    assert_eq!(result("device.attributes['a']"), "result: map(string, google.protobuf.Any)");
    assert_eq!(result("device.attributes['a'].?b"), "result: optional_type(google.protobuf.Any)");
    assert_eq!(result("duration('1s')"), "result: google.protobuf.Duration");
    assert_eq!(result("[]"), "result: list(dyn)");
    assert_eq!(result("null"), "result: null_type");
    assert_eq!(result("[1].map(x, x > 0)"), "result: list(bool)");
    assert_eq!(result("quantity('1')"), "result: kubernetes.Quantity");
}

/// What kube-apiserver accepts must not be refused.
#[test]
fn what_suits_is_accepted() {
    check_correct(&[
        "device.attributes['a'].b",
        "device.attributes['a']['b'] ? true : false",
        "device.allowMultipleAllocations",
        "device.attributes['a'].b > 1 && device.attributes['a'].b < 1.5 && device.attributes['a'].b == 'c'",
        "device.attributes['a'].b + 1 == 2 && device.attributes['a'].b.startsWith('c')",
        "device.attributes['a'].?b.orValue(false)",
        "device.attributes[?'a'].?b.orValue('') == 'c' && device.?driver.orValue('') != ''",
        "device.attributes['a'].b != null && device.attributes['a'] == {}",
        "device.attributes['a'].b in ['c', 'd'] && 'a' in device.attributes",
        "device.attributes['a'].b.compareTo(semver('1.0.0')) >= 0",
        "device.capacity['a'].b.compareTo(quantity('1')) >= 0 && device.capacity['a'].b == quantity('1')",
        "device.attributes['a'].b.includes(1) && device.driver.includes('a')",
        "true ? device.attributes['a'].b : false",
        "cel.bind(mine, device.attributes['a'], has(mine.b) && mine.b == 'c')",
        "[1, 2].exists(x, x > 1) && [[1], []].all(x, size(x) < 2) && {'a': 1}.exists_one(k, k == 'a')",
        "device.attributes.all(domain, of_domain, of_domain.all(name, value, value == 1))",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2} && [1].transformList(i, v, i < 1, v) == [1]",
        "{'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'}",
        "[2, 1].sortBy(x, -x) == [2, 1] && ['a'].sort() == ['a'] && [[1]].flatten() == [1]",
        "[optional.of(1), optional.none()].unwrapOpt() == [1] && optional.none().orValue(true)",
        "optional.of(3).optMap(x, x * 2) == optional.of(6) && optional.of(1).optFlatMap(x, optional.of(x)).hasValue()",
        "[?optional.of(1), 2] == [1, 2] && {?'a': optional.of(1)} == {'a': 1}",
        "'%d and %s'.format([1, 'a']) == '1 and a' && 'a,b'.split(',').join('-') == 'a-b'",
        "type(1) == int && type(device.driver) == string && type(null) == null_type",
        "timestamp(0).getHours('+01:00') == 1 && timestamp(0) + duration('1s') > timestamp(0)",
        "1 < 2u && 1.5 > 1 && -1 < 0 && -1.5 < 0.0",
        "net.IP == type(ip('::1')) && google.protobuf.Timestamp == type(timestamp(0))",
        ".size(device.driver) > 0 && .sets.contains([1], [1])",
        "string(ip('::1')) == '::1' && ip.isCanonical('::1') && cidr('::/0').ip() == ip('::')",
        "dyn([]).first().hasValue() || [] == [1] || {} == {'a': 1} || [].all(x, x)",
        "url('/a').getQuery().all(k, v, v.exists(x, x == k))",
    ]);
}

/// Types can be far larger than the expressions that make them.
#[test]
fn a_type_that_doubles_is_no_reason_to_refuse() {
    let nested = |make: fn(usize) -> String| {
        let binds: String = (1..30).map(make).collect();
        format!("cel.bind(x0, [], {binds}x29 == x29{})", ")".repeat(29))
    };
    let maps = nested(|n| format!("cel.bind(x{n}, {{[x{0}]: [x{0}]}}, ", n - 1));
    assert_eq!(check_text(&maps, false), Ok(()));
    let lists = nested(|n| format!("cel.bind(x{n}, [[x{}]], ", n - 1));
    assert_eq!(check_text(&lists, false), Ok(()));
}
