//! Panics at PreFilter, or answers an error at PreFilter, as its arguments say: `"fault"`, `"error"`, or `"fault over
//! NAME"` to break down over the pod of that name alone.

use berth_sdk::framework::{Call, Configure, ConfigureError, Manifest, PreFilter, Status};

berth_sdk::plugin!(BreaksDown: PreFilter);
berth_sdk::export!(BreaksDown);

#[derive(Debug)]
enum BreaksDown {
    Panics,
    PanicsOver(String),
    Errs,
}

impl Configure for BreaksDown {
    fn describe() -> Manifest {
        Manifest { name: "BreaksDown".to_owned(), version: "0.1.0".to_owned(), ..Manifest::default() }
    }

    fn configure(args: &str) -> Result<Self, ConfigureError> {
        Ok(match args.trim_matches('"') {
            "fault" => Self::Panics,
            text => text.strip_prefix("fault over ").map_or(Self::Errs, |name| Self::PanicsOver(name.to_owned())),
        })
    }
}

impl PreFilter for BreaksDown {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        let panics = match self {
            Self::Panics => true,
            Self::PanicsOver(name) => *name == *call.pod.name,
            Self::Errs => return Err(Status::error("on purpose")),
        };
        #[expect(clippy::panic, reason = "what this plugin is for")]
        if panics {
            panic!("on demand");
        }
        Ok(None)
    }
}
