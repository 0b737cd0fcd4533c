//! The time that a storm of events delays a pod that could be placed.
//!
//! The scheduling thread handles at most [`Scheduler::EVENTS_PER_TURN`] events, for at most [`Scheduler::TURN`], before
//! it tries a pod again. A storm lasts as many turns as its events need. Each turn has a pod of high priority that
//! fits.

use std::{
    io::{self, Write as _},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use berth_scheduler::{Event, Scheduler};
use serde_json::{Value, json};

use super::{Bound, EngineRunner, Stage};
use crate::{
    run::{RunConditions, StormFigures},
    workload::Cluster,
};

/// A storm: the events that the scheduler receives.
struct Storm {
    name: &'static str,
    events: fn(&mut Stage<'_>, &Cluster) -> Result<Vec<Event>>,
}

const STORMS: [Storm; 6] = [
    Storm {
        name: "all nodes report that they are alive",
        events: |stage, cluster| stage.changed(&cluster.nodes, |_| ()),
    },
    Storm {
        name: "all nodes get a label",
        events: |stage, cluster| {
            stage.changed(&cluster.nodes, |node| node["metadata"]["labels"]["example.com/new"] = json!("yes"))
        },
    },
    Storm {
        name: "all nodes get larger",
        events: |stage, cluster| {
            stage.changed(&cluster.nodes, |node| node["status"]["allocatable"]["cpu"] = json!("5"))
        },
    },
    Storm { name: "all placed pods are listed again", events: |stage, cluster| stage.changed(&cluster.placed, |_| ()) },
    Storm {
        name: "all pods that fit nowhere get a label",
        events: |stage, cluster| {
            stage.changed(&cluster.unschedulable, |pod| pod["metadata"]["labels"]["example.com/new"] = json!("yes"))
        },
    },
    Storm {
        name: "a namespace with all placed pods is deleted",
        events: |stage, cluster| {
            let server = stage.simulation.server_mut();
            cluster.placed.iter().map(|pod| Ok(server.delete(pod)?)).collect()
        },
    },
];

impl EngineRunner<'_> {
    /// Runs each storm on a separate cluster.
    pub(super) fn all_storms(&mut self, conditions: &RunConditions, cluster: &Cluster) -> Result<Vec<StormFigures>> {
        let storms = STORMS.iter().map(|storm| {
            writeln!(io::stderr(), "{}", storm.name)?;
            let mut stage = Stage::new((self.profile)()?, &self.tell_time, conditions);
            stage.settle(cluster)?;
            stage.weather(storm, cluster)
        });
        storms.collect()
    }
}

impl Stage<'_> {
    /// Takes in the cluster, and tries the pods that fit nowhere.
    fn settle(&mut self, cluster: &Cluster) -> Result<()> {
        self.simulation.tell_time();
        for object in cluster.nodes.iter().chain(&cluster.placed) {
            self.create(object)?;
        }
        self.handle(Event::Synced);
        for pod in &cluster.unschedulable {
            self.create(pod)?;
        }
        while self.turn(&mut Bound::new())? {}
        Ok(())
    }

    /// The watch events after `change` was applied to each of the objects.
    fn changed(&mut self, objects: &[Value], change: fn(&mut Value)) -> Result<Vec<Event>> {
        let changed = objects.iter().map(|object| {
            let mut object = object.clone();
            change(&mut object);
            Ok(self.simulation.server_mut().create(&object)?)
        });
        changed.collect()
    }

    fn weather(&mut self, storm: &Storm, cluster: &Cluster) -> Result<StormFigures> {
        let events = (storm.events)(self, cluster)?;
        let (n_events, mut events) = (events.len(), events.into_iter());
        let (mut bound, mut longest, began) = (Bound::new(), Duration::ZERO, Instant::now());
        for index in 0.. {
            if events.len() == 0 {
                break;
            }
            let urgent = self.simulation.server_mut().create(&Cluster::urgent(index))?;
            let start = Instant::now();
            self.handle(urgent);
            for event in events.by_ref().take(Scheduler::EVENTS_PER_TURN) {
                self.handle(event);
                if start.elapsed() >= Scheduler::TURN {
                    break;
                }
            }
            // The scheduler tries this pod first, because no other pod has its priority.
            self.turn(&mut bound)?;
            longest = longest.max(start.elapsed());
            ensure!(bound.len() == index + 1, "{}: the pod of high priority was not placed", storm.name);
            self.simulation.drop_observations();
        }
        Ok(StormFigures {
            storm: storm.name.to_owned(),
            events: n_events,
            all_millis: began.elapsed().as_secs_f64() * 1e3,
            longest_millis: longest.as_secs_f64() * 1e3,
        })
    }
}
