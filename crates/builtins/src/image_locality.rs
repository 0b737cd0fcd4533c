//! ImageLocality: prefers nodes that already have the pod's images.
//!
//! kube-scheduler: `pkg/scheduler/framework/plugins/imagelocality/image_locality.go`.

use berth_framework::{Call, ConfigureError, Score, Status};
use berth_model::{ClusterTable, Column, NodeSet, Sym, cluster_table::Image};

use crate::{
    args::{self, NoArgs},
    built_in::{BuiltIn, Descriptor, plugin},
    normalize::MAX_SCORE,
};

/// Scores a node by the size of the pod's images on the node. The size of an image is scaled by the share of nodes that
/// have the image. Without this scale, all pods with an image would go to the node that pulled the image first.
#[derive(Debug, Default)]
pub struct ImageLocality;

impl BuiltIn for ImageLocality {
    const DESCRIPTOR: Descriptor =
        Descriptor { name: "ImageLocality", columns: &[Column::Images], events_to_register: &[], ..Descriptor::BLANK };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        args::parse::<NoArgs>(Self::NAME, args)?;
        Ok(Self)
    }
}

plugin!(ImageLocality: Score, Sign; Reuse);

const MIB: i64 = 1024 * 1024;
/// Images with a smaller total size score 0.
const MIN_BYTES: i64 = 23 * MIB;
/// Images of this total size for each container of the pod, or more, score 100.
const MAX_BYTES: i64 = 1000 * MIB;

/// The image's size, scaled by the share of nodes that have the image.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "Kubernetes computes in float64 and truncates"
)]
fn spread_bytes(image: &Image, n_nodes: usize) -> i64 {
    let share = image.n_nodes as f64 / n_nodes as f64;
    (image.size as f64 * share) as i64
}

impl ImageLocality {
    /// The weight of a node's copy of an image; `None` if no node has the image.
    pub(crate) fn bytes_of(table: &ClusterTable, image: Sym) -> Option<i64> {
        table.images().get(image).map(|image| spread_bytes(image, table.n_nodes()))
    }
}

/// The pod's images that are on any node.
fn held_images<'a>(call: &Call<'a>) -> impl Iterator<Item = &'a Image> {
    let images = call.table.images();
    call.pod.images.iter().filter_map(|name| images.get(*name))
}

fn score_of(bytes: i64, n_containers: u32) -> i64 {
    let max = MAX_BYTES.saturating_mul(i64::from(n_containers));
    let bytes = if bytes < MIN_BYTES { MIN_BYTES } else { bytes.min(max) };
    MAX_SCORE.saturating_mul(bytes - MIN_BYTES) / (max - MIN_BYTES)
}

impl Score for ImageLocality {
    fn score(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        let held: Vec<(&NodeSet, i64)> =
            held_images(call).map(|image| (&image.nodes, spread_bytes(image, call.table.n_nodes()))).collect();
        let without_images = score_of(0, call.pod.n_containers);
        for block in nodes.blocks() {
            if held.iter().all(|(holders, _)| holders.block(block.first) & block.members == 0) {
                scores.extend(std::iter::repeat_n(without_images, block.n_members() as usize));
                continue;
            }
            scores.extend(block.rows().map(|node| {
                let here = held.iter().filter(|(holders, _)| holders.contains(node));
                score_of(here.map(|(_, bytes)| bytes).sum(), call.pod.n_containers)
            }));
        }
        Ok(())
    }

    fn common_score(&mut self, call: &Call<'_>, nodes: &NodeSet) -> Option<i64> {
        let is_held = held_images(call).any(|image| !image.nodes.is_disjoint(nodes));
        (!is_held).then(|| score_of(0, call.pod.n_containers))
    }
}

#[cfg(test)]
mod tests {
    use berth_model::{Features, Pod, Release, ThinVec, api};

    use super::*;
    use crate::testing::{TestCluster, scores};

    /// The score of the first of ten nodes. An entry of `images` is the size of an image in MiB, and the number of
    /// nodes with the image, which are the first nodes.
    fn first_score(images: &[(i64, usize)], n_containers: u32) -> i64 {
        let mut cluster = TestCluster::default();
        let names: ThinVec<_> = (0..images.len()).map(|index| cluster.sym(&format!("image{index}:latest"))).collect();
        for node in 0..10 {
            let held = names.iter().zip(images).filter(|(_, (_, n_holders))| node < *n_holders);
            let held: Vec<_> = held.map(|(name, (mib, _))| (*name, mib * MIB)).collect();
            cluster.edit_node(&format!("n{node}"), |node| node.images = held);
        }
        let pod = Pod { images: names, n_containers, ..Pod::default() };
        scores(&mut ImageLocality, &cluster, &pod).unwrap().0[0]
    }

    /// The pod has one container and one image volume. The volume's image of 500 MiB is on every node.
    #[test]
    fn image_volumes_count_as_containers_from_1_37_on() {
        let spec = serde_json::json!({"spec": {
            "containers": [{"name": "c", "image": "small"}],
            "volumes": [{"name": "v", "image": {"reference": "model:1"}}, {"name": "e", "emptyDir": {}}],
        }});
        let pod: api::Pod = serde_json::from_value(spec).unwrap();
        let scored = Release::ALL.map(|release| {
            let mut cluster = TestCluster::default();
            cluster.set_features(Features::of(release));
            let image = cluster.sym("model:1");
            cluster.edit_node("n", |node| node.images = [(image, 500 * MIB)].into_iter().collect());
            let pod = cluster.intern(&pod);
            scores(&mut ImageLocality, &cluster, &pod).unwrap().0[0]
        });
        assert_eq!(scored, [48, 24]);
    }

    #[test]
    fn the_first_size_that_a_node_reports_for_a_name_counts() {
        let mut cluster = TestCluster::default();
        let image = cluster.sym("web@sha256:0123");
        let pod = Pod { images: [image].into(), n_containers: 1, ..Pod::default() };
        for (sizes, expected) in [([500, 900], 48), ([900, 500], 89)] {
            cluster.edit_node("n", |node| node.images = sizes.map(|mib| (image, mib * MIB)).into());
            assert_eq!(scores(&mut ImageLocality, &cluster, &pod).unwrap().0, [expected], "{sizes:?}");
        }
    }

    #[test]
    fn scores_grow_with_size_and_share_of_nodes() {
        assert_eq!(first_score(&[(500, 5), (200, 10)], 2), 21);
        assert_eq!(first_score(&[(300, 4)], 1), 9);
        assert_eq!(first_score(&[(20, 1)], 1), 0);
        assert_eq!(first_score(&[(1000, 10)], 1), 100);
        assert_eq!(first_score(&[(9000, 10)], 1), 100);
        assert_eq!(first_score(&[], 0), 0);
    }
}
