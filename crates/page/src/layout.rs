//! The common parts of all views: the frame around them, tables, and amounts of time.

use std::{fmt::Write as _, time::Duration};

use berth_scheduler::ClusterView;
use berth_telemetry::clock;
use maud::{DOCTYPE, Markup, html};

use crate::{
    SourceError,
    viewer::{Refusal, Viewer},
};

/// The number of rows that a table shows at a time. The address says which row is the first.
pub(crate) const ROWS: usize = 200;

/// The time after which a view that is not shown is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// A view.
#[derive(Debug)]
pub(crate) struct View {
    pub title: String,
    /// Forms, which remain when a newer rendering replaces all other parts of the page.
    pub filters: Markup,
    pub content: Markup,
    pub age: Age,
    /// The time between two renderings for a browser that follows the view.
    pub every: Duration,
}

/// The time to which the shown data belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Age {
    /// Milliseconds since 1970, by the wall clock.
    milliseconds: u64,
    /// Whether all data is from that time. Otherwise, some of the data is older or missing.
    is_whole: bool,
}

impl Age {
    pub(crate) fn of(view: &ClusterView) -> Self {
        Self { milliseconds: clock::wall(view.as_of()), is_whole: view.is_complete() }
    }

    pub(crate) fn at(milliseconds: u64, is_whole: bool) -> Self {
        Self { milliseconds, is_whole }
    }

    /// The age of complete data from some milliseconds ago.
    pub(crate) fn ago(milliseconds: u64) -> Self {
        Self { milliseconds: clock::wall(clock::now()).saturating_sub(milliseconds), is_whole: true }
    }
}

/// The views that have a place in the menu.
const MENU: [(&str, &str); 5] = [
    ("/page", "Now"),
    ("/page/pods", "Pending pods"),
    ("/page/nodes", "Nodes"),
    ("/page/plugins", "Plugins"),
    ("/page/what-if", "What if"),
];

/// The content of the head of each document.
pub(crate) fn metadata(title: &str) -> Markup {
    html! {
        meta charset="utf-8";
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        title { (title) " – Berth" }
        link rel="icon" href="/page/icon.svg" type="image/svg+xml";
        link rel="stylesheet" href="/page/style.css";
    }
}

/// The whole document of a view. `path` is the view's path.
pub(crate) fn document(view: &View, path: &str, viewer: &Viewer) -> Markup {
    let status = html! { noscript { "without its script this page stays as it is: load it again" } };
    frame(&view.title, &status, &html! { (view.filters) (live(view)) }, path, viewer)
}

/// The whole document of a form or an answer, which does not change.
pub(crate) fn still_document(title: &str, content: &Markup, path: &str, viewer: &Viewer) -> Markup {
    frame(title, &html! {}, content, path, viewer)
}

fn frame(title: &str, status: &Markup, content: &Markup, path: &str, viewer: &Viewer) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (metadata(title))
                script src="/page/script.js" defer {}
            }
            body {
                a.skip href="#content" { "Skip to the content" }
                header {
                    p.brand { "Berth" }
                    nav aria-label="Views" {
                        ul {
                            @for (address, name) in MENU {
                                li { a href=(address) aria-current=[(address == path).then_some("page")] { (name) } }
                            }
                        }
                    }
                    form.find action="/page/pod" method="get" role="search" {
                        label for="find" { "Pod" }
                        input #find type="search" name="pod" placeholder="namespace/name" required autocomplete="off";
                        button { "Explain" }
                    }
                    @if let Some(user) = viewer.user() {
                        form.user action="/page/sign-out" method="post" {
                            span { (user.name()) }
                            button { "Sign out" }
                        }
                    }
                }
                main #content tabindex="-1" {
                    div.title { h1 { (title) } p #link role="status" { (status) } }
                    (content)
                }
            }
        }
    }
}

/// The part that is replaced by newer renderings.
pub(crate) fn live(view: &View) -> Markup {
    html! {
        div #view data-every=(view.every.as_millis()) {
            (view.content)
            (age(view.age))
        }
    }
}

fn age(Age { milliseconds, is_whole }: Age) -> Markup {
    html! {
        p.age {
            "As of " time datetime=(clock::rfc3339(milliseconds)) data-milliseconds=(milliseconds) { (clock::rfc3339(milliseconds)) }
            @if !is_whole { ". " strong { "Some data is missing or older than that." } }
        }
    }
}

/// The content that is shown instead of a view.
pub(crate) fn refused(refusal: &Refusal) -> View {
    let (title, help) = match refusal {
        Refusal::Forbidden { .. } => ("Not allowed", "a role that allows it makes this view appear"),
        Refusal::Source(SourceError::NotFound(_)) => ("Not found", "it may have ended, or have another name"),
        Refusal::Source(SourceError::Unavailable(_)) => ("No answer", "the page tries again by itself"),
        Refusal::Source(SourceError::Refused(_)) => ("Not done", "nothing has changed"),
        Refusal::Changed(_) => ("Not done", "nothing has changed"),
        Refusal::Address(_) => ("Not an address", "correct it, or choose a view above"),
    };
    let content = html! { div.refused role="alert" { p { strong { (refusal.to_string()) } } p { (help) } } };
    View { title: title.to_owned(), filters: html! {}, content, age: Age::ago(0), every: TRY_AGAIN }
}

/// The line that is shown if there is nothing to list.
pub(crate) fn nothing(text: &str) -> Markup {
    html! { p.nothing { (text) } }
}

/// Says which rows are shown, and has links to the other pages of rows. `address` gets the number of the first row of a
/// page.
pub(crate) fn pager(first: usize, shown: usize, total: usize, address: impl Fn(usize) -> String) -> Markup {
    html! {
        @if total > 0 {
            p.pager {
                (thousands(first + 1)) "–" (thousands(first + shown)) " of " (thousands(total))
                @if first > 0 { " " a href=(address(first.saturating_sub(ROWS))) rel="prev" { "previous" } }
                @if first + shown < total { " " a href=(address(first + ROWS)) rel="next" { "next" } }
            }
        }
    }
}

/// An address with a query. Parameters without a value are left out.
pub(crate) fn address<'a>(path: &str, query: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut address = path.to_owned();
    let mut separator = '?';
    for (name, value) in query.into_iter().filter(|(_, value)| !value.is_empty()) {
        // Writing to a string cannot fail.
        let _ = write!(address, "{separator}{name}=");
        for byte in value.bytes() {
            let _ = match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                    write!(address, "{}", char::from(byte))
                }
                _ => write!(address, "%{byte:02X}"),
            };
        }
        separator = '&';
    }
    address
}

/// The address of a pod's explanation.
pub(crate) fn pod_address(namespace: &str, name: &str) -> String {
    address("/page/pod", [("pod", &*format!("{namespace}/{name}"))])
}

/// `1,234,567`.
pub(crate) fn thousands(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or(u64::MAX).to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `2h 5m`, `1m 5s`, `7s`.
pub(crate) fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// Seconds in the unit that needs only a few digits.
pub(crate) fn short_time(seconds: f64) -> String {
    match seconds {
        _ if seconds >= 10.0 => format!("{seconds:.0} s"),
        _ if seconds >= 1.0 => format!("{seconds:.1} s"),
        _ if seconds >= 0.001 => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{:.0} µs", seconds * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_hold_any_text() {
        let query = [("reason", "a & b=c"), ("owner", ""), ("pod", "default/web"), ("name", "<ü>")];
        assert_eq!(address("/page", query), "/page?reason=a%20%26%20b%3Dc&pod=default/web&name=%3C%C3%BC%3E");
        assert_eq!(address("/page", []), "/page");
    }

    #[test]
    fn numbers_are_for_people() {
        assert_eq!([thousands(7_u64), thousands(1234_u64), thousands(1_234_567_u64)], ["7", "1,234", "1,234,567"]);
        assert_eq!([duration(999), duration(65_000), duration(7_500_000)], ["0s", "1m 5s", "2h 5m"]);
        assert_eq!([short_time(0.000_02), short_time(0.0123), short_time(2.5)], ["20 µs", "12 ms", "2.5 s"]);
    }
}
