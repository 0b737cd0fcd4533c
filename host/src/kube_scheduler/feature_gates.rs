//! `--feature-gates`. A gate of other components, which share one list of gates with the scheduler, is accepted and has no meaning.

use berth_config::feature_gates::{Concern, GateError, Gates};

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FlagError {
    #[error("--feature-gates {0}: write it as Name=true or Name=false")]
    Malformed(String),
    #[error("--feature-gates: {0}")]
    Gate(#[from] GateError),
}

/// Reads what `--feature-gates` says, one gate a text: how all gates stand, and the settings that have no effect.
pub(super) fn read<'a>(settings: &[&'a str]) -> Result<(Gates, Vec<&'a str>), FlagError> {
    let (mut gates, mut without_effect) = (Gates::default(), Vec::new());
    for setting in settings.iter().filter(|setting| !setting.is_empty()) {
        let malformed = || FlagError::Malformed((*setting).to_owned());
        let (name, value) = setting.split_once('=').ok_or_else(malformed)?;
        let value = crate::flags::go_bool(value).ok_or_else(malformed)?;
        let name = name.strip_prefix("kube:").unwrap_or(name);
        let stood = gates.is_on(name);
        if gates.switch(name, value)? == Concern::Others && value != stood {
            without_effect.push(*setting);
        }
    }
    Ok((gates, without_effect))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_stand_as_they_do_by_default_and_are_switched() {
        let defaults = ["SchedulerQueueingHints=true", "kube:DRADeviceTaints=true", "GangScheduling=false", ""];
        assert_eq!(read(&defaults), Ok((Gates::default(), Vec::new())));
        let of_others = ["RotateKubeletServerCertificate=false", "KubeletPSI=true", "PodsAPI=T"];
        let (_, without_effect) = read(&of_others).expect("they are accepted");
        assert_eq!(without_effect, [of_others[0], of_others[2]]);
        let (gates, _) = read(&["SchedulerAsyncAPICalls=true", "DRAPrioritizedList=0"]).expect("they are built");
        assert!(gates.is_on("SchedulerAsyncAPICalls") && !gates.is_on("DRAPrioritizedList"));
        assert!(matches!(read(&["GangScheduling=true"]), Err(FlagError::Gate(GateError::NotBuilt { .. }))));
        assert!(matches!(read(&["NoSuchGate=true"]), Err(FlagError::Gate(GateError::Unknown { .. }))));
        assert_eq!(read(&["GangScheduling"]), Err(FlagError::Malformed("GangScheduling".to_owned())));
        assert_eq!(read(&["GangScheduling=yes"]), Err(FlagError::Malformed("GangScheduling=yes".to_owned())));
    }
}
