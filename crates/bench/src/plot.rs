//! Line charts as SVG, side by side. The x axis shows the square root, so that 0 and 500,000 are both visible; the y
//! axis begins at 0.

use std::fmt::Write as _;

/// A chart.
pub(crate) struct Chart {
    /// The quantity on the x axis.
    pub(crate) title: String,
    pub(crate) lines: Vec<Line>,
}

/// Points that are connected.
pub(crate) struct Line {
    pub(crate) title: String,
    pub(crate) color: usize,
    pub(crate) is_dashed: bool,
    pub(crate) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 60.0;
const GAP: f64 = 90.0;
const LINE_OF_TEXT: f64 = 16.0;
/// Colours that remain distinct for people with red-green colour blindness.
const COLORS: [&str; 3] = ["#0072b2", "#d55e00", "#009e73"];
const N_TICKS: i32 = 5;

/// The charts, with this text over them.
pub(crate) fn svg(title: &str, charts: &[Chart]) -> String {
    let n_lines = charts.iter().map(|chart| chart.lines.len()).max().unwrap_or(0);
    let width = LEFT + charts.len() as f64 * (WIDTH + GAP);
    let height = TOP + HEIGHT + 60.0 + n_lines as f64 * LINE_OF_TEXT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    text(&mut svg, LEFT, 24.0, "start", title);
    for (at, chart) in charts.iter().enumerate() {
        draw(&mut svg, chart, LEFT + at as f64 * (WIDTH + GAP));
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw(svg: &mut String, chart: &Chart, left: f64) {
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let max_x = points().map(|point| point.0).fold(1.0, f64::max);
    let max_y = ceiling(points().map(|point| point.1).fold(1.0, f64::max));
    let bottom = TOP + HEIGHT;
    let place = |(x, y): (f64, f64)| (left + (x / max_x).sqrt() * WIDTH, bottom - y / max_y * HEIGHT);
    for tick in 0..=N_TICKS {
        let value = max_y * f64::from(tick) / f64::from(N_TICKS);
        let (_, y) = place((0.0, value));
        let right = left + WIDTH;
        put(svg, &format!("<path d=\"M{left:.1} {y:.1}H{right:.1}\" stroke=\"#ddd\"/>"));
        text(svg, left - 6.0, y + 4.0, "end", &format!("{value:.0}"));
    }
    let mut ticks: Vec<f64> = points().map(|point| point.0).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    let mut free_from = f64::NEG_INFINITY;
    for tick in ticks {
        let (x, _) = place((tick, 0.0));
        // A label that would overlap the previous label is left out.
        if x >= free_from {
            text(svg, x, bottom + LINE_OF_TEXT, "middle", &format!("{tick:.0}"));
            free_from = x + 46.0;
        }
    }
    text(svg, left + WIDTH / 2.0, bottom + 2.0 * LINE_OF_TEXT + 4.0, "middle", &chart.title);
    for (at, line) in chart.lines.iter().enumerate() {
        let color = COLORS.get(line.color % COLORS.len()).copied().unwrap_or("black");
        let dashes = if line.is_dashed { " stroke-dasharray=\"5 4\"" } else { "" };
        let stroke = format!("fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"{dashes}");
        let path: Vec<String> =
            line.points.iter().map(|point| place(*point)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        put(svg, &format!("<polyline points=\"{}\" {stroke}/>", path.join(" ")));
        let y = bottom + 60.0 + at as f64 * LINE_OF_TEXT;
        put(svg, &format!("<path d=\"M{left:.1} {:.1}h30\" {stroke}/>", y - 4.0));
        text(svg, left + 38.0, y, "start", &line.title);
    }
}

fn put(svg: &mut String, element: &str) {
    svg.push_str(element);
    svg.push('\n');
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    // All titles are constants of this program, and none needs an escape.
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}

/// The next round number: 1, 2 or 5, with zeros.
fn ceiling(value: f64) -> f64 {
    let magnitude = 10f64.powf(value.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * magnitude).find(|round| *round >= value);
    round.unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_shows_each_line_and_ends_at_a_round_number() {
        let line =
            |title: &str, points: Vec<(f64, f64)>| Line { title: title.to_owned(), color: 0, is_dashed: false, points };
        let lines = vec![line("one", vec![(0.0, 10.0), (100.0, 42.0)]), line("two", vec![(0.0, 0.0), (100.0, 0.0)])];
        let svg = svg("time", &[Chart { title: "nodes".to_owned(), lines }]);
        assert_eq!(svg.matches("<polyline").count(), 2);
        // 50 is the top of the axis, so 42 lies 16 hundredths of the height below it.
        assert!(svg.contains(">50</text>") && svg.contains(&format!("480.0,{:.1}", TOP + HEIGHT * 0.16)), "{svg}");
    }

    #[test]
    fn numbers_are_rounded_up() {
        assert_eq!([1.0, 1.2, 4.0, 5.1, 99.0, 430.0].map(ceiling), [1.0, 2.0, 5.0, 10.0, 100.0, 500.0]);
    }
}
