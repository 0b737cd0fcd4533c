//! Random clusters and pods, which are generated from the meaning of the API's types.
//!
//! A cluster is a set of recipes. proptest removes objects and switches features off, and all other recipes do not
//! change. The names come from small alphabets, so that selectors, taints and claims often match.

pub mod nodes;
pub mod objects;
pub mod pods;
pub mod random;
mod selectors;

use std::collections::BTreeMap;

use proptest::{collection::btree_map, prelude::*};
use serde_json::Value;

use self::{
    objects::Kind,
    pods::Place,
    random::{Random, Recipe, recipe},
};

/// The objects of the API server, as recipes.
#[derive(Clone, Debug, Default)]
pub struct ClusterRecipe {
    pub nodes: BTreeMap<u8, Recipe>,
    /// The pods with a node or a nomination, with their revisions.
    pub pods: BTreeMap<u8, (Recipe, u8)>,
    pub objects: BTreeMap<(Kind, u8), Recipe>,
}

/// The objects of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterObjects {
    /// The nodes by name.
    pub nodes: BTreeMap<String, Value>,
    /// The pods by uid.
    pub pods: BTreeMap<String, Value>,
    /// The other objects by kind, namespace and name.
    pub others: BTreeMap<(Kind, String, String), Value>,
}

const NAMESPACES: [&str; 3] = ["red", "green", "blue"];

/// A pod with this feature is not on its node, but only nominated to it.
const NOMINATED: u32 = 39;

impl ClusterRecipe {
    #[must_use]
    pub fn objects(&self) -> ClusterObjects {
        let nodes = self.nodes.iter().map(|(number, recipe)| (nodes::name(*number), nodes::node(*number, recipe)));
        let mut objects = ClusterObjects { nodes: nodes.collect(), ..ClusterObjects::default() };
        for (number, (recipe, revision)) in &self.pods {
            let node = self.home(recipe);
            let place = if recipe.has(NOMINATED) { Place::Nominated(&node) } else { Place::On(&node) };
            let pod = pods::pod(*number, recipe, *revision, place);
            objects.pods.insert(text(&pod, "/metadata/uid"), pod);
        }
        for ((kind, number), recipe) in &self.objects {
            let object = objects::object(*kind, *number, recipe);
            let key = (*kind, text(&object, "/metadata/namespace"), text(&object, "/metadata/name"));
            objects.others.insert(key, object);
        }
        objects
    }

    /// The node of a pod. The node stays the same if other nodes are removed. Few nodes have many pods. One pod in
    /// twenty refers to a node that does not exist.
    fn home(&self, recipe: &Recipe) -> String {
        if recipe.base().number().is_multiple_of(20) {
            return "gone".to_owned();
        }
        let attraction = |number: &&u8| Random::new(recipe.seed.rotate_left(13) ^ u64::from(**number)).number();
        self.nodes.keys().max_by_key(attraction).map_or_else(|| "gone".to_owned(), |number| nodes::name(*number))
    }
}

/// A field of an object; empty if the field is absent.
#[must_use]
pub fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(&Kind::ALL[..])
}

fn sized(least_nodes: usize, most_nodes: usize) -> impl Strategy<Value = ClusterRecipe> {
    let nodes = btree_map(0..60_u8, recipe(nodes::N_FEATURES, 4), least_nodes..=most_nodes);
    let pods = btree_map(0..200_u8, (recipe(pods::N_FEATURES, 6), 0..2_u8), 0..=most_nodes * 3);
    let objects = btree_map((kind(), 0..18_u8), recipe(objects::N_FEATURES, 3), 0..60);
    (nodes, pods, objects).prop_map(|(nodes, pods, objects)| ClusterRecipe { nodes, pods, objects })
}

/// A cluster of up to `most_nodes` nodes, and usually of few.
pub fn cluster(most_nodes: usize) -> impl Strategy<Value = ClusterRecipe> {
    let few = most_nodes / 4;
    prop_oneof![1 => sized(0, 0), 8 => sized(1, few + 1), 3 => sized(few, most_nodes)]
}

/// A pod that waits for a node. Numbers from 200 on are not used by placed pods.
#[must_use]
pub fn pending(number: u8, recipe: &Recipe) -> Value {
    let place = match recipe.feature(NOMINATED) {
        Some(mut random) => Place::Nominated(&nodes::name(u8::try_from(random.below(20)).unwrap_or(0))),
        None => Place::Pending,
    };
    pods::pod(number, recipe, 0, place)
}

/// The recipe for [`pending`].
pub fn pending_recipe() -> impl Strategy<Value = Recipe> {
    recipe(pods::N_FEATURES, 5)
}

impl ClusterRecipe {
    /// Removes some objects and adds the objects of `other`, which replace objects of the same number. The remaining
    /// pods may get other labels.
    pub fn change(&mut self, other: &ClusterRecipe, choices: u64) {
        let mut random = Random::new(choices);
        self.nodes.retain(|_, _| random.chance(80));
        self.pods.retain(|_, _| random.chance(80));
        self.objects.retain(|_, _| random.chance(80));
        for (_, revision) in self.pods.values_mut().filter(|_| random.chance(20)) {
            *revision = revision.wrapping_add(1);
        }
        self.nodes.extend(&other.nodes);
        self.pods.extend(&other.pods);
        self.objects.extend(&other.objects);
    }
}
