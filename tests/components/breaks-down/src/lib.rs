//! Panics at PreFilter, or answers an error there, as its arguments say.

use berth_sdk::framework::{Call, Configure, ConfigureError, Manifest, PreFilter, Status};

berth_sdk::plugin!(BreaksDown: PreFilter);
berth_sdk::export!(BreaksDown);

#[derive(Debug)]
struct BreaksDown {
    panics: bool,
}

impl Configure for BreaksDown {
    fn describe() -> Manifest {
        Manifest { name: "BreaksDown".to_owned(), version: "0.1.0".to_owned(), ..Manifest::default() }
    }

    fn configure(args: &str) -> Result<Self, ConfigureError> {
        Ok(Self { panics: args == r#""fault""# })
    }
}

impl PreFilter for BreaksDown {
    fn pre_filter(&mut self, _call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        #[expect(clippy::panic, reason = "what this plugin is for")]
        if self.panics {
            panic!("on demand");
        }
        Err(Status::error("on purpose"))
    }
}
