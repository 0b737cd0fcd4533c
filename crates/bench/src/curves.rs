//! The growth of a pod's cost with the cluster: figures over the number of nodes, of placed pods and of unschedulable
//! pods.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;

use crate::{
    figures::{Figures, RunSetup},
    plot::{self, Chart, Line},
    run::{RunConditions, Runner},
    workload::{Pods, Scale, Scene, Workload},
};

/// Pods that are measured at each point.
const N_MEASURED: usize = 2000;

/// Nodes of the clusters in which the number of pods grows.
const N_NODES: usize = 5000;
/// The nodes of the clusters with unschedulable pods. A pod that fits nowhere is checked against every node once, so
/// these clusters are smaller.
const N_NODES_FOR_UNSCHEDULABLE: usize = 1000;

/// One figure.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Point {
    /// The quantity that grows: `nodes`, `placedPods` or `unschedulablePods`.
    axis: &'static str,
    workload: &'static str,
    equivalence_cache: bool,
    /// The number of nodes or pods: the position on the axis.
    x: usize,
    cpu_micros_per_pod: f64,
    allocations_per_pod: Option<f64>,
    peak_megabytes: Option<f64>,
}

/// A quantity that grows.
struct Axis {
    name: &'static str,
    title: &'static str,
    steps: &'static [usize],
    workloads: &'static [&'static str],
    scene: fn(&Workload, usize) -> Scene,
}

const AXES: [Axis; 3] = [
    Axis {
        name: "nodes",
        title: "nodes",
        steps: &[100, 500, 1000, 5000, 10_000, 20_000, 50_000],
        workloads: &["SchedulingBasic", "TopologySpreading", "SchedulingPreferredPodAffinity"],
        scene: |workload, nodes| workload.scene(sized(workload, nodes)),
    },
    Axis {
        name: "placedPods",
        title: "pods on 5,000 nodes",
        steps: &[0, 10_000, 50_000, 100_000, 200_000, 500_000],
        workloads: &["SchedulingBasic", "TopologySpreading", "SchedulingPreferredPodAffinity"],
        scene: |workload, n| {
            let scene = workload.scene(sized(workload, N_NODES));
            Scene { placed: Pods::placed(n, N_NODES), ..scene }
        },
    },
    Axis {
        name: "unschedulablePods",
        title: "pods that fit nowhere, 1,000 nodes",
        steps: &[0, 1000, 5000, 10_000, 20_000, 50_000],
        workloads: &["SchedulingBasic"],
        scene: |workload, n| {
            let scene = workload.scene(sized(workload, N_NODES_FOR_UNSCHEDULABLE));
            Scene { pending: Pods::unschedulable(n), ..scene }
        },
    },
];

fn sized(workload: &Workload, nodes: usize) -> crate::workload::Size {
    let size = workload.size(Scale::Nodes(nodes));
    crate::workload::Size { initial: size.initial.min(N_MEASURED), measured: N_MEASURED.min(nodes * 20), ..size }
}

/// Measures every point, and writes the files.
///
/// # Errors
/// A point cannot be measured, or the folder cannot be written to.
pub fn run(dir: &Path, runner: &mut dyn Runner, allocations: Option<fn() -> u64>) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("--curves {}", dir.display()))?;
    let mut points = Vec::new();
    for axis in &AXES {
        for name in axis.workloads {
            let workload = Workload::named(name).into_iter().next().with_context(|| format!("no workload {name}"))?;
            for equivalence_cache in [false, true] {
                for &x in axis.steps {
                    let point = measure(axis, workload, equivalence_cache, x, runner, allocations)?;
                    writeln!(
                        io::stderr(),
                        "{} {} {x}, cache {}: {:.1} us a pod",
                        workload.name,
                        axis.name,
                        if equivalence_cache { "on" } else { "off" },
                        point.cpu_micros_per_pod
                    )?;
                    points.push(point);
                }
            }
        }
    }
    write(dir, &runner.name(), &points)
}

fn measure(
    axis: &Axis,
    workload: &'static Workload,
    equivalence_cache: bool,
    x: usize,
    runner: &mut dyn Runner,
    allocations: Option<fn() -> u64>,
) -> Result<Point> {
    let conditions = RunConditions { percentage_of_nodes_to_score: 0, equivalence_cache, rate: None, allocations };
    let run = runner
        .run((axis.scene)(workload, x), &conditions, &mut |_| ())
        .with_context(|| format!("{} with {x} {}", workload.name, axis.name))?;
    let subject = RunSetup {
        workload: workload.name.to_owned(),
        runner: runner.name(),
        nodes: x,
        initial_pods: 0,
        placed_pods: 0,
        pods: run.n_pods,
        classes: 1,
        percentage_of_nodes_to_score: 0,
        equivalence_cache,
        rate: None,
    };
    let figures = Figures::of(subject, &[run]);
    Ok(Point {
        axis: axis.name,
        workload: workload.name,
        equivalence_cache,
        x,
        cpu_micros_per_pod: figures.cpu_micros_per_pod,
        allocations_per_pod: figures.allocations_per_pod,
        peak_megabytes: figures.peak_megabytes,
    })
}

fn write(dir: &Path, runner: &str, points: &[Point]) -> Result<()> {
    let put = |name: &str, text: String| {
        let file = dir.join(name);
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
    };
    put("curves.json", serde_json::to_string_pretty(&json!({"runner": runner, "points": points}))? + "\n")?;
    let mut csv =
        "axis,workload,equivalence_cache,x,cpu_micros_per_pod,allocations_per_pod,peak_megabytes\n".to_owned();
    for point in points {
        let Point { axis, workload, equivalence_cache, x, cpu_micros_per_pod, allocations_per_pod, peak_megabytes } =
            point;
        let text = |figure: &Option<f64>| figure.map_or_else(String::new, |figure| format!("{figure:.1}"));
        let (allocations, memory) = (text(allocations_per_pod), text(peak_megabytes));
        csv.push_str(&format!(
            "{axis},{workload},{equivalence_cache},{x},{cpu_micros_per_pod:.2},{allocations},{memory}\n"
        ));
    }
    put("curves.csv", csv)?;
    let charts: Vec<Chart> = AXES.iter().map(|axis| chart(axis, points)).collect();
    put("curves.svg", plot::svg(&format!("microseconds of processor time for one pod ({runner})"), &charts))
}

fn chart(axis: &Axis, points: &[Point]) -> Chart {
    let mut lines = Vec::new();
    for (color, workload) in axis.workloads.iter().enumerate() {
        for equivalence_cache in [false, true] {
            let of_line = points.iter().filter(|it| {
                it.axis == axis.name && it.workload == *workload && it.equivalence_cache == equivalence_cache
            });
            lines.push(Line {
                title: format!("{workload}, cache {}", if equivalence_cache { "on" } else { "off" }),
                color,
                is_dashed: !equivalence_cache,
                points: of_line.map(|point| (point.x as f64, point.cpu_micros_per_pod)).collect(),
            });
        }
    }
    Chart { title: axis.title.to_owned(), lines }
}

#[cfg(test)]
mod tests {
    const CSV: &str = include_str!("../../../docs/src/curves/curves.csv");
    const SIZING: &str = include_str!("../../../docs/src/operating.md");

    /// The memory and the processor time of a point, as the guide writes them; empty for a point that is not measured.
    /// The time is that with the equivalence cache. The memory is the smaller peak of the runs with and without the
    /// cache, because a process still holds memory of larger clusters that it measured before.
    fn measured(axis: &str, workload: &str, x: &str) -> (String, String) {
        let (mut memory, mut time): (Option<f64>, _) = (None, String::new());
        for row in CSV.lines() {
            let cells: Vec<&str> = row.split(',').collect();
            let [its_axis, its_workload, has_cache, its_x, micros, _, megabytes] = cells[..] else { continue };
            if (its_axis, its_workload, its_x) != (axis, workload, x) {
                continue;
            }
            let megabytes: f64 = megabytes.parse().expect("a number");
            memory = Some(memory.map_or(megabytes, |other| other.min(megabytes)));
            if has_cache == "true" {
                time = format!("{:.0}", micros.parse::<f64>().expect("a number"));
            }
        }
        (memory.map_or_else(String::new, |memory| format!("{:.0}", memory.ceil())), time)
    }

    #[test]
    fn the_guides_sizes_are_points_of_the_curves() {
        let table = SIZING.split("\n| nodes | pods on them |").nth(1).expect("the table");
        let table = table.split("\n\n").next().unwrap_or_default();
        let mut n_rows = 0;
        for row in table.lines().skip(2) {
            let cells: Vec<String> = row.split('|').map(|cell| cell.trim().replace(',', "")).collect();
            let [_, nodes, placed, unschedulable, memory, plain, spread, _] = &cells[..] else { panic!("{row}") };
            let (axis, x) = match (placed.as_str(), unschedulable.as_str()) {
                ("", "") => ("nodes", nodes),
                (_, "") => ("placedPods", placed),
                _ => ("unschedulablePods", unschedulable),
            };
            let basic = measured(axis, "SchedulingBasic", x);
            assert_eq!((memory, plain), (&basic.0, &basic.1), "{row}");
            assert_eq!(*spread, measured(axis, "TopologySpreading", x).1, "{row}");
            n_rows += 1;
        }
        assert!(n_rows > 5, "only {n_rows} rows were found");
    }
}
