//! The depth of an expression, computed from its text. Parser and interpreter recurse for each level, and a stack
//! overflow ends the process.
//!
//! Brackets nest, and so do chains: `a + b + c` is `(a + b) + c`, `a.b.c` is `(a.b).c`, and `a ? b : c ? d : e` nests
//! to the right. Chains of `&&` and `||` do not nest, as the parser balances them. The computed depth is at least half
//! of the real depth.

/// The maximum depth. The scheduling thread has 4 MiB of stack, and a component has 512 KiB and smaller frames.
pub(super) const MAX_DEPTH: usize = 100;

pub(super) fn is_too_deep(expression: &str) -> bool {
    let mut rest = expression;
    // The length of the chain that each open bracket interrupts.
    let mut chains = vec![0_usize];
    let mut depth = 0;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' | '\'' => text_length(rest, ends_with_raw_prefix(&expression[..expression.len() - rest.len()])),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '&' | '|' | ',' => {
                if let Some(chain) = chains.last_mut() {
                    depth -= std::mem::take(chain);
                }
                1
            }
            '(' | '[' | '{' => {
                chains.push(1);
                depth += 1;
                1
            }
            ')' | ']' | '}' => {
                // A closing bracket without an opening one is left to the parser, which refuses it.
                if chains.len() > 1 {
                    depth -= chains.pop().unwrap_or_default();
                }
                deepen(&mut chains, &mut depth);
                1
            }
            '.' | '+' | '-' | '*' | '/' | '%' | '=' | '<' | '>' | '!' | '?' | ':' => {
                deepen(&mut chains, &mut depth);
                1
            }
            // The operator `in`.
            'i' if rest.starts_with("in ") => {
                deepen(&mut chains, &mut depth);
                2
            }
            other => other.len_utf8(),
        };
        if depth > MAX_DEPTH {
            return true;
        }
        rest = &rest[length..];
    }
    false
}

fn deepen(chains: &mut [usize], depth: &mut usize) {
    if let Some(chain) = chains.last_mut() {
        *chain += 1;
        *depth += 1;
    }
}

fn ends_with_raw_prefix(before: &str) -> bool {
    before.ends_with(['r', 'R'])
}

/// The bytes of the text literal at the beginning of `rest`, quotes included. A literal without an end reaches to the
/// end of `rest`.
fn text_length(rest: &str, is_raw: bool) -> usize {
    let quote = &rest[..1];
    let triple = quote.repeat(3);
    let end = if rest.starts_with(&triple) { triple.as_str() } else { quote };
    let mut at = end.len();
    while at < rest.len() {
        if rest[at..].starts_with(end) {
            return at + end.len();
        }
        let mut characters = rest[at..].chars();
        if characters.next() == Some('\\') && !is_raw {
            // The escaped character, such as a quote.
            characters.next();
        }
        at = rest.len() - characters.as_str().len();
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_and_brackets_count() {
        let of = |part: &str, n: usize| is_too_deep(&format!("x{}", part.repeat(n)));
        for chain in [" + 1", ".a", "[0]", " ? a : b", " == y", " in [1]"] {
            assert!(!of(chain, 20) && of(chain, MAX_DEPTH + 1), "{chain}");
        }
        for prefix in ["!", "-", "(", "[", "{a: "] {
            assert!(is_too_deep(&prefix.repeat(MAX_DEPTH + 1)), "{prefix}");
        }
    }

    #[test]
    fn what_lies_side_by_side_does_not() {
        assert!(!is_too_deep(&vec!["device.driver == 'x'"; 400].join(" || ")));
        assert!(!is_too_deep(&format!("x in [{}]", vec!["1 + 1"; 1_000].join(", "))));
    }

    #[test]
    fn texts_and_comments_do_not_count() {
        let dots = ".".repeat(1_000);
        for text in [
            format!("x == '{dots}'"),
            format!("x == \"\\\"{dots}\""),
            format!("x == '''{dots}'{dots}'''"),
            format!("x == r'\\' // {dots}"),
            format!("x // {dots}\n == 'ä'"),
        ] {
            assert!(!is_too_deep(&text), "{text}");
        }
        assert!(is_too_deep(&format!("x == r'\\' + y{dots}")));
        assert!(!is_too_deep("'no end"));
        assert!(!is_too_deep(")))"));
    }
}
