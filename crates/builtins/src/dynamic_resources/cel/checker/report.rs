//! The text of mistakes in an expression, as cel-go writes it: each with its place, its line, and a mark below the place.

use cel::{ParseErrors, common::ast::SourceInfo};

/// The length of the text after which no more mistakes are added, in bytes.
const ENOUGH: usize = 2_048;

/// A mistake in the part of an expression with this id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Mistake {
    pub(in super::super) id: u64,
    pub(in super::super) message: String,
}

/// A mistake with its place: lines count from one, and characters of a line from zero.
struct Placed<'a> {
    line: usize,
    column: usize,
    message: &'a str,
}

/// The text of the mistakes, in the order of their places.
pub(in super::super) fn of_mistakes(source: &str, info: &SourceInfo, mistakes: &[Mistake]) -> String {
    let placed = mistakes.iter().map(|Mistake { id, message }| {
        let offset = info.offset_for(*id).map_or(0, |(start, _)| usize::try_from(start).unwrap_or(0));
        let before = source.get(..offset).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        Placed { line: before.matches('\n').count() + 1, column: line.chars().count(), message }
    });
    text(source, placed.collect())
}

/// The text of the mistakes that the parser found.
pub(in super::super) fn of_syntax(source: &str, errors: &ParseErrors) -> String {
    let number = |position: isize| usize::try_from(position).unwrap_or(0);
    let placed = errors.errors.iter().map(|error| Placed {
        line: number(error.pos.0),
        column: number(error.pos.1).saturating_sub(1),
        message: &error.msg,
    });
    text(source, placed.collect())
}

fn text(source: &str, mut mistakes: Vec<Placed<'_>>) -> String {
    mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
    let mut text = String::new();
    for Placed { line, column, message } in mistakes {
        if text.len() > ENOUGH {
            break;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("ERROR: <input>:{line}:{}: {message}", column + 1));
        let Some(of_line) = line.checked_sub(1).and_then(|index| source.split('\n').nth(index)) else { continue };
        let of_line = of_line.replace('\t', " ");
        text.push_str(&format!("\n | {of_line}\n | "));
        // A character of several bytes is marked as a wide one.
        text.extend(of_line.chars().take(column).map(|it| if it.is_ascii() { '.' } else { '．' }));
        text.push(if of_line.chars().nth(column).is_none_or(|it| it.is_ascii()) { '^' } else { '＾' });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_shown_in_the_order_of_their_places() {
        let placed = |line, column, message| Placed { line, column, message };
        let shown = text("a &&\nä\tb", vec![placed(2, 2, "second"), placed(1, 0, "first")]);
        assert_eq!(shown, "ERROR: <input>:1:1: first\n | a &&\n | ^\nERROR: <input>:2:3: second\n | ä b\n | ．.^");
    }
}
