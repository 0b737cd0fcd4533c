//! DefaultBinder: binds a pod to the node that was chosen for it.

use berth_framework::{Bind, Call, ConfigureError, Effect, Permission, Status};
use berth_model::NodeIdx;

use crate::{
    args::{self, NoArgs},
    built_in::{BuiltIn, Descriptor, plugin},
};

/// Returns the effect that binds the pod. The host carries out the effect through the `binding` subresource of the pod.
#[derive(Debug, Default)]
pub struct DefaultBinder;

impl BuiltIn for DefaultBinder {
    const DESCRIPTOR: Descriptor =
        Descriptor { name: "DefaultBinder", effects: &[Permission::Bind], ..Descriptor::BLANK };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        args::parse::<NoArgs>(Self::NAME, args)?;
        Ok(Self)
    }
}

plugin!(DefaultBinder: Bind; Reuse);

impl Bind for DefaultBinder {
    fn bind(&mut self, _call: &Call<'_>, _node: NodeIdx) -> Result<Vec<Effect>, Status> {
        Ok(vec![Effect::Bind])
    }
}

#[cfg(test)]
mod tests {
    use berth_framework::CycleId;
    use berth_model::{ClusterTable, Pod, Time};

    use super::*;

    #[test]
    fn bind_returns_the_effect_that_binds() {
        let (pod, table) = (Pod::default(), ClusterTable::default());
        let call = Call::new(CycleId(1), Time::default(), &pod, &table);
        assert_eq!(DefaultBinder.bind(&call, NodeIdx(0)), Ok(vec![Effect::Bind]));
    }
}
