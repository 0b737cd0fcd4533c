//! The start of an instance: the component is instantiated and gets the arguments of its profile.

use berth_framework::{BuildError, ConfigureError};

use crate::{
    component::LoadedComponent,
    convert::on_one_line,
    fault::InstanceFault,
    instance::{Instance, TimeLimit, guest},
};

/// The reason why there is no instance.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartFailure {
    #[error("{0}")]
    Instantiation(String),
    /// The plugin refused its arguments, with this text.
    #[error("{0}")]
    Refused(ConfigureError),
    #[error("{title} {fault}")]
    Faulty { title: String, fault: InstanceFault },
}

impl From<StartFailure> for BuildError {
    fn from(failure: StartFailure) -> Self {
        match failure {
            StartFailure::Refused(refusal) => BuildError::Refused(refusal),
            StartFailure::Instantiation(_) | StartFailure::Faulty { .. } => BuildError::Start(failure.to_string()),
        }
    }
}

/// Makes a configured instance.
pub(super) fn start(component: &LoadedComponent, args: &str) -> Result<Instance, StartFailure> {
    let failed = |error| StartFailure::Instantiation(format!("{} {error}", component.title()));
    let mut instance = Instance::new(component).map_err(failed)?;
    let configured = instance.call(component, "configure", TimeLimit::Lifecycle, |context| {
        Ok(guest(&context.exports.lifecycle)?.call_configure(context.store, args)?)
    });
    match configured {
        Ok(Ok(())) => Ok(instance),
        Ok(Err(reason)) => {
            let end = reason.floor_char_boundary(component.limits.text_bytes);
            let reason = on_one_line(reason.get(..end).unwrap_or_default().to_owned());
            Err(StartFailure::Refused(ConfigureError::new(reason)))
        }
        Err(fault) => Err(StartFailure::Faulty { title: component.title(), fault }),
    }
}
