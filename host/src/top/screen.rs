//! The content of `berth top`, and its layout.

use std::time::{Duration, Instant};

use berth_page::{Overview, PendingPod, TimeShare};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Borders, Cell, Paragraph, Row, Table, TableState, Wrap},
};

/// The state of the screen.
#[derive(Debug)]
pub(super) struct Screen {
    overview: Overview,
    took_at: Instant,
    /// The reason why the newest question has no answer.
    lost: Option<String>,
    /// The reason of the shown pods; `None` shows all pods.
    reason: Option<String>,
    pods: TableState,
    explained: Option<Explained>,
}

/// The explanation of a pod, in lines.
#[derive(Debug)]
pub(super) struct Explained {
    title: String,
    lines: Vec<String>,
    /// The first line that is shown.
    first: usize,
}

impl Explained {
    pub(super) fn new(namespace: &str, name: &str, text: &str) -> Self {
        Self { title: format!("{namespace}/{name}"), lines: text.lines().map(plain).collect(), first: 0 }
    }
}

/// The text without control characters, which could change the terminal.
fn plain(text: &str) -> String {
    text.chars().map(|it| if it.is_control() { '\u{fffd}' } else { it }).collect()
}

impl Screen {
    pub(super) fn new(overview: Overview) -> Self {
        Self {
            overview,
            took_at: Instant::now(),
            lost: None,
            reason: None,
            pods: TableState::default().with_selected(0),
            explained: None,
        }
    }

    /// Shows a new answer.
    pub(super) fn took(&mut self, overview: Overview, now: Instant) {
        (self.overview, self.took_at, self.lost) = (overview, now, None);
        let is_known = |reason: &String| self.reasons().any(|known| known == reason);
        if !self.reason.as_ref().is_none_or(is_known) {
            self.reason = None;
        }
        self.step(0);
    }

    /// Records that no answer came. The last answer stays on the screen, marked as old.
    pub(super) fn lost(&mut self, error: &anyhow::Error) {
        self.lost = Some(plain(&format!("{error:#}")));
    }

    pub(super) fn explain(&mut self, explained: Explained) {
        self.explained = Some(explained);
    }

    pub(super) fn back(&mut self) {
        if self.explained.take().is_none() {
            self.reason = None;
        }
    }

    /// Moves the selection, or scrolls the explanation.
    pub(super) fn step(&mut self, lines: isize) {
        let moved = |at: usize, last: usize| at.saturating_add_signed(lines).min(last);
        match &mut self.explained {
            Some(explained) => explained.first = moved(explained.first, explained.lines.len().saturating_sub(1)),
            None => {
                let last = self.shown().count().saturating_sub(1);
                self.pods.select(Some(moved(self.pods.selected().unwrap_or(0), last)));
            }
        }
    }

    /// Shows the pods of the next reason, and all pods after the last reason.
    pub(super) fn next_reason(&mut self) {
        let next = match &self.reason {
            None => self.reasons().next(),
            Some(reason) => self.reasons().skip_while(|other| *other != reason).nth(1),
        };
        self.reason = next.map(str::to_owned);
        self.pods.select(Some(0));
    }

    /// The namespace and name of the selected pod.
    pub(super) fn chosen(&self) -> Option<(String, String)> {
        let pod = self.shown().nth(self.pods.selected()?)?;
        Some((pod.namespace.clone(), pod.name.clone()))
    }

    fn reasons(&self) -> impl Iterator<Item = &str> {
        self.overview.pending.iter().flat_map(|pending| &pending.reasons).map(|group| &*group.reason)
    }

    fn shown(&self) -> impl Iterator<Item = &PendingPod> {
        let pods = self.overview.pending.iter().flat_map(|pending| &pending.oldest);
        pods.filter(|pod| self.reason.as_ref().is_none_or(|reason| *reason == pod.reason))
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        if let Some(explained) = &self.explained {
            return draw_explained(frame, explained);
        }
        let n_complaints = u16::try_from(self.overview.complaints.len().clamp(1, 4)).unwrap_or(1);
        let rows = [Constraint::Length(4), Constraint::Length(n_complaints), Constraint::Length(9), Constraint::Min(5)];
        let [head, complaints, times, pods] = Layout::vertical(rows).areas(frame.area());
        frame.render_widget(Paragraph::new(self.head()), head);
        frame.render_widget(Paragraph::new(self.complaints()), complaints);
        let halves = Layout::horizontal([Constraint::Fill(2), Constraint::Fill(1), Constraint::Fill(1)]);
        let [reasons, points, plugins] = halves.areas(times);
        self.draw_reasons(frame, reasons);
        frame.render_widget(shares("Extension points", &self.overview.points), points);
        frame.render_widget(shares("Plugins", &self.overview.plugins), plugins);
        self.draw_pods(frame, pods);
    }

    fn head(&self) -> Vec<Line<'static>> {
        let Overview { queues, binding, nodes, bound_per_second, is_leading, leader, .. } = &self.overview;
        let queue = |name: &str| queues.get(name).copied().unwrap_or_default();
        let time = |seconds: Option<f64>| seconds.map_or_else(|| "–".to_owned(), short_time);
        let (p50, p99) = (time(self.overview.time_to_bind_p50), time(self.overview.time_to_bind_p99));
        let state = match &self.lost {
            Some(error) => {
                let age = self.took_at.elapsed().as_secs();
                let text = format!("NO ANSWER for {age} s; the data is {age} s old: {error}");
                Span::styled(text, Style::new().fg(Color::Red).add_modifier(Modifier::BOLD))
            }
            None if !self.overview.is_whole => Span::raw("some data is missing or older than the other data"),
            None => Span::raw("up to date"),
        };
        let bold = |text: String| Span::styled(text, Style::new().add_modifier(Modifier::BOLD));
        vec![
            Line::from(vec![bold("berth top".to_owned()), Span::raw("  "), state]),
            Line::from(format!(
                "{}; {nodes} nodes; last minute: {bound_per_second:.1} pods bound a second, time to bind p50 {p50}, p99 {p99}",
                standing(*is_leading, leader.as_deref())
            )),
            Line::from(format!(
                "queues: {} active, {} backoff, {} unschedulable, {} gated; {binding} being bound",
                queue("active"),
                queue("backoff"),
                queue("unschedulable"),
                queue("gated")
            )),
            Line::raw(""),
        ]
    }

    fn complaints(&self) -> Vec<Line<'static>> {
        let complaints = &self.overview.complaints;
        if complaints.is_empty() {
            return vec![Line::styled("nothing is known to be wrong", Style::new().fg(Color::Green))];
        }
        let line = |complaint: &berth_page::OverviewComplaint| {
            let colour = if complaint.is_problem { Color::Red } else { Color::Yellow };
            Line::styled(plain(&format!("{}. {}", complaint.text, complaint.fix)), Style::new().fg(colour))
        };
        let mut lines: Vec<Line<'static>> = complaints.iter().take(4).map(line).collect();
        if let (Some(last), true) = (lines.last_mut(), complaints.len() > 4) {
            *last = Line::raw(format!("and {} more: berth plugin list", complaints.len() - 3));
        }
        lines
    }

    fn draw_reasons(&self, frame: &mut Frame<'_>, area: Rect) {
        let Some(pending) = &self.overview.pending else {
            let text = Paragraph::new("you may not list the pods of all namespaces").block(titled("Pending pods"));
            return frame.render_widget(text, area);
        };
        let rows = pending.reasons.iter().map(|group| {
            let is_chosen = self.reason.as_ref() == Some(&group.reason);
            let style = if is_chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
            Row::new([plain(&group.reason), group.pods.to_string(), age(group.oldest_milliseconds)]).style(style)
        });
        let widths = [Constraint::Fill(1), Constraint::Length(7), Constraint::Length(8)];
        let more = pending.reasons.len().saturating_sub(usize::from(area.height.saturating_sub(2)));
        let more = if more > 0 { format!(", {more} reasons more") } else { String::new() };
        let table = Table::new(rows, widths)
            .header(Row::new(["reason", "pods", "oldest"]).style(Style::new().add_modifier(Modifier::DIM)))
            .block(titled(&format!("{} pending pods{more}", pending.pods)));
        frame.render_widget(table, area);
    }

    fn draw_pods(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let row = |pod: &PendingPod| {
            let name = plain(&format!("{}/{}", pod.namespace, pod.name));
            Row::new([name, age(pod.age_milliseconds), pod.attempts.to_string(), plain(&pod.reason)])
        };
        let rows: Vec<Row<'_>> = self.shown().map(row).collect();
        let total = self.overview.pending.as_ref().map_or(0, |pending| pending.pods);
        let title = match &self.reason {
            Some(reason) => format!("{} of the oldest pending pods, by reason: {}", rows.len(), plain(reason)),
            None => format!("the oldest {} of {total}", rows.len()),
        };
        let widths = [Constraint::Percentage(40), Constraint::Length(8), Constraint::Length(8), Constraint::Fill(1)];
        let table = Table::new(rows, widths)
            .header(Row::new(["pod", "age", "attempts", "reason"]).style(Style::new().add_modifier(Modifier::DIM)))
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
            .block(titled(&title).title_bottom("Enter explains · Tab next reason · Esc back · q quits"));
        frame.render_stateful_widget(table, area, &mut self.pods);
    }
}

fn draw_explained(frame: &mut Frame<'_>, explained: &Explained) {
    let lines = explained.lines.iter().skip(explained.first).map(|line| Line::raw(line.clone()));
    let block = titled(&explained.title).title_bottom("Up, Down, PageUp, PageDown · Esc back · q quits");
    let text = Paragraph::new(lines.collect::<Vec<_>>()).wrap(Wrap { trim: false }).block(block);
    frame.render_widget(text, frame.area());
}

fn titled(title: &str) -> Block<'static> {
    Block::new().borders(Borders::TOP).title(format!(" {title} "))
}

fn shares(title: &str, taken: &[TimeShare]) -> Table<'static> {
    let all: f64 = taken.iter().map(|share| share.seconds).sum();
    let rows = taken.iter().filter(|_| all > 0.0).map(|share| {
        let percent = format!("{:>5.1} %", share.seconds / all * 100.0);
        Row::new([Cell::from(plain(&share.name)), Cell::from(percent)])
    });
    Table::new(rows.collect::<Vec<_>>(), [Constraint::Fill(1), Constraint::Length(8)])
        .header(Row::new(["", "time"]).style(Style::new().add_modifier(Modifier::DIM)))
        .block(titled(title))
}

fn short_time(seconds: f64) -> String {
    if seconds >= 1.0 { format!("{seconds:.1} s") } else { format!("{:.0} ms", seconds * 1e3) }
}

/// `2h5m`, `1m5s`, `7s`.
fn age(milliseconds: u64) -> String {
    let seconds = Duration::from_millis(milliseconds).as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{}s", seconds / 60, seconds % 60),
        _ => format!("{}h{}m", seconds / 3_600, seconds / 60 % 60),
    }
}

/// Says whether this replica leads, or which other replica leads.
fn standing(is_leading: bool, leader: Option<&str>) -> String {
    match leader {
        _ if is_leading => "leads".to_owned(),
        Some(leader) => format!("stands by, {leader} leads"),
        None => "stands by".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use berth_page::{OverviewComplaint, Pending, PendingGroup};
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;

    fn overview() -> Overview {
        let group = |reason: &str, pods| PendingGroup { reason: reason.to_owned(), pods, oldest_milliseconds: 65_000 };
        let pod = |name: &str, reason: &str| PendingPod {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            reason: reason.to_owned(),
            age_milliseconds: 7_000,
            attempts: 3,
        };
        Overview {
            is_whole: true,
            is_leading: true,
            nodes: 12,
            bound_per_second: 4.25,
            time_to_bind_p50: Some(0.012),
            queues: [("unschedulable".to_owned(), 3)].into(),
            complaints: vec![OverviewComplaint {
                is_problem: true,
                text: "it \u{1b}[2J fails".to_owned(),
                fix: "mend it".to_owned(),
            }],
            plugins: vec![TimeShare { name: "NodeResourcesFit".to_owned(), times: 3, seconds: 0.5 }],
            pending: Some(Pending {
                pods: 3,
                reasons: vec![group("NodeAffinity", 2), group("held by Gate", 1)],
                oldest: vec![pod("a", "NodeAffinity"), pod("b", "held by Gate"), pod("c", "NodeAffinity")],
            }),
            ..Overview::default()
        }
    }

    fn drawn(screen: &mut Screen) -> String {
        let mut terminal = Terminal::new(TestBackend::new(140, 30)).expect("a terminal");
        terminal.draw(|frame| screen.draw(frame)).expect("it draws");
        let buffer = terminal.backend().buffer().clone();
        let row = |y| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..buffer.area.height).map(row).map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn what_there_is_to_see_is_on_the_screen() {
        let text = drawn(&mut Screen::new(overview()));
        for part in [
            "leads; 12 nodes; last minute: 4.2 pods bound a second, time to bind p50 12 ms, p99 –",
            "0 active, 0 backoff, 3 unschedulable, 0 gated",
            "3 pending pods",
            "default/b",
            "NodeResourcesFit",
            "100.0 %",
            "1m5s",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert!(!text.contains('\u{1b}') && text.contains("it \u{fffd}[2J fails. mend it"), "{text}");
    }

    #[test]
    fn keys_choose_a_pod_and_a_reason() {
        let mut screen = Screen::new(overview());
        let chosen = |screen: &Screen| screen.chosen().expect("a pod").1;
        assert_eq!(chosen(&screen), "a");
        screen.step(1);
        assert_eq!(chosen(&screen), "b");
        screen.step(10);
        assert_eq!(chosen(&screen), "c");
        screen.next_reason();
        assert!(!drawn(&mut screen).contains("default/b"));
        screen.next_reason();
        assert_eq!(chosen(&screen), "b");
        screen.next_reason();
        assert_eq!(chosen(&screen), "a", "after the last reason come all pods");
        screen.explain(Explained::new("default", "a", "Pod default/a: it waits\nReason: Held"));
        let text = drawn(&mut screen);
        assert!(text.contains("Reason: Held") && !text.contains("pending pods"), "{text}");
        screen.back();
        assert!(drawn(&mut screen).contains("3 pending pods"));
        // The pods no longer exist.
        screen.took(Overview::default(), Instant::now());
        assert_eq!(screen.chosen(), None);
        assert!(drawn(&mut screen).contains("you may not list the pods"));
    }

    #[test]
    fn a_lost_connection_looks_lost_and_not_like_zeros() {
        let mut screen = Screen::new(overview());
        screen.lost(&anyhow::anyhow!("connection refused"));
        let text = drawn(&mut screen);
        assert!(text.contains("NO ANSWER for 0 s") && text.contains("12 nodes"), "{text}");
        screen.took(overview(), Instant::now());
        assert!(drawn(&mut screen).contains("up to date"));
    }
}
