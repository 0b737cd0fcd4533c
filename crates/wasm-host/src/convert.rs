//! Conversion between the host's types and the contract's: [`lower`] on the way into a component, [`lift`] on the way
//! out.
//!
//! Lifting checks an answer against its limits. Lowering cannot fail.

pub(crate) mod lift;
pub(crate) mod lower;
mod names;
pub(crate) mod size;

/// Removes line breaks and other control characters from the text. With control characters, a plugin could write lines
/// in the name of other plugins, or control the terminal of a reader.
#[must_use]
pub fn on_one_line(text: String) -> String {
    if !text.contains(char::is_control) {
        return text;
    }
    text.chars().fold(String::with_capacity(text.len()), |mut line, character| {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
        line
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_text_is_left_alone() {
        let forged = "ready\n2026-01-01T00:00:00Z ERROR berth: all nodes are gone \u{1b}[2J";
        let line = on_one_line(forged.to_owned());
        assert_eq!(line, "ready\\n2026-01-01T00:00:00Z ERROR berth: all nodes are gone \\u{1b}[2J");
        assert_eq!(on_one_line("größer \"als\" 5 %".to_owned()), "größer \"als\" 5 %");
    }
}
