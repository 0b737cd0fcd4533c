//! Tables for people. In a terminal, a table has the width of the terminal, and cells wrap. Elsewhere, a row is one
//! line, and no line is padded at its end.

use std::io;

use comfy_table::{ContentArrangement, Table, presets};
use rustix::termios::tcgetwinsize;

/// An empty table for standard output.
pub fn new() -> Table {
    // Only a terminal has a size, and some terminals report no columns.
    let columns = tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col);
    with_columns(columns.filter(|columns| *columns > 0))
}

fn with_columns(columns: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(columns) = columns {
        table.set_width(columns);
    }
    table
}

/// The table's lines, without a newline at the end.
pub fn text(table: &Table) -> String {
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REASON: &str = "3 faults within 600 s; the last was: trapped in filter: a test trap";

    fn lines(columns: Option<u16>) -> Vec<String> {
        let mut table = with_columns(columns);
        table.set_header(["NAME", "REASON"]).add_row(["ByPriority", REASON]).add_row(["NodeName", ""]);
        text(&table).lines().map(str::to_owned).collect()
    }

    #[test]
    fn cells_wrap_in_a_terminal() {
        let lines = lines(Some(40));
        assert!(lines.len() > 3 && lines.iter().all(|line| line.chars().count() <= 40), "{lines:#?}");
    }

    #[test]
    fn a_row_is_one_line_without_padding_in_a_pipe() {
        let lines = lines(None);
        assert_eq!(lines.len(), 3, "{lines:#?}");
        assert!(lines[1].ends_with(REASON) && lines[2].ends_with("NodeName"), "{lines:#?}");
    }
}
