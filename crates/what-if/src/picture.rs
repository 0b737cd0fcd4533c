//! A picture of the nodes. Each node is a square. The squares are grouped by zone, and fuller nodes are darker.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::utilization::NodeUse;

const SQUARE: usize = 14;
const GAP: usize = 2;
const PER_ROW: usize = 64;
const LEFT: usize = 16;
const TOP: usize = 56;
const HEADING: usize = 26;

/// The colours from empty to full, as shades of one colour. People with red-green colour blindness can distinguish
/// these shades, too.
const SHADES: [&str; 6] = ["#f7fbff", "#d0e1f2", "#94c4df", "#4a98c9", "#1764ab", "#08306b"];
const OVER_FULL: &str = "#d55e00";

/// An SVG of the nodes, ordered by zone and then by how full the nodes are.
#[must_use]
pub fn svg(nodes: &[NodeUse<'_>]) -> String {
    let mut zones: BTreeMap<&str, Vec<&NodeUse<'_>>> = BTreeMap::new();
    for node in nodes {
        zones.entry(node.zone()).or_default().push(node);
    }
    let step = SQUARE + GAP;
    let n_rows: usize = zones.values().map(|nodes| nodes.len().div_ceil(PER_ROW)).sum();
    let height = TOP + zones.len() * HEADING + n_rows * step + 16;
    let width = 2 * LEFT + PER_ROW * step;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    legend(&mut svg, nodes.len());
    let mut y = TOP;
    for (zone, mut nodes) in zones {
        nodes.sort_by(|one, other| other.share().total_cmp(&one.share()));
        let name = if zone.is_empty() { "no zone" } else { zone };
        put(
            &mut svg,
            format_args!("<text x=\"{LEFT}\" y=\"{}\">{}: {} nodes</text>", y + 16, escape(name), nodes.len()),
        );
        y += HEADING;
        for row in nodes.chunks(PER_ROW) {
            for (at, node) in row.iter().enumerate() {
                square(&mut svg, LEFT + at * step, y, node);
            }
            y += step;
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String, n_nodes: usize) {
    put(
        svg,
        format_args!(
            "<text x=\"{LEFT}\" y=\"20\">{n_nodes} nodes by the larger share of cpu and memory requested</text>"
        ),
    );
    for (at, shade) in SHADES.iter().enumerate() {
        let x = LEFT + at * 90;
        put(
            svg,
            format_args!(
                "<rect x=\"{x}\" y=\"30\" width=\"{SQUARE}\" height=\"{SQUARE}\" fill=\"{shade}\" stroke=\"#999\"/>"
            ),
        );
        put(
            svg,
            format_args!(
                "<text x=\"{}\" y=\"42\">{}</text>",
                x + SQUARE + 4,
                ["0 %", "-20 %", "-40 %", "-60 %", "-80 %", "-100 %"][at]
            ),
        );
    }
}

fn square(svg: &mut String, x: usize, y: usize, node: &NodeUse<'_>) {
    let name = escape(&node.node.metadata.name);
    let percent = node.share() * 100.0;
    put(
        svg,
        format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{SQUARE}\" height=\"{SQUARE}\" fill=\"{}\" stroke=\"#999\"><title>{name}: {percent:.0} %</title></rect>",
            shade(node.share())
        ),
    );
}

fn shade(share: f64) -> &'static str {
    let thresholds = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];
    thresholds.iter().zip(SHADES).find(|(most, _)| share <= **most).map_or(OVER_FULL, |(_, shade)| shade)
}

fn put(svg: &mut String, element: std::fmt::Arguments<'_>) {
    // Writing to a text cannot fail.
    let _ = writeln!(svg, "{element}");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use crate::node_uses;
    use berth_model::api;

    use super::*;

    #[test]
    fn every_node_is_a_square_in_its_zone() {
        let node = |name: &str, zone: &str| {
            let mut node = api::Node::default();
            name.clone_into(&mut node.metadata.name);
            node.metadata.labels.insert("topology.kubernetes.io/zone".to_owned(), zone.to_owned());
            node
        };
        let nodes = [node("a", "w<st"), node("b", "east"), node("c", "east")];
        let svg = svg(&node_uses(nodes.iter(), std::iter::empty()));
        assert_eq!(svg.matches("<title>").count(), 3);
        assert!(svg.contains("east: 2 nodes") && svg.contains("w&lt;st: 1 nodes"), "{svg}");
    }
}
