//! Plugins with one fault at one extension point, with any pod.

use anyhow::Result;

use crate::points::{self, At};

/// The fault of [`faults_at`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestFault {
    Trap,
    /// Loops forever.
    Loop,
    /// Grows its memory up to the limit.
    ExhaustMemory,
    /// Recurses until the stack is used up.
    ExhaustStack,
    /// Reads just below address 0, like a component that has used up a stack at address 0.
    ReadBelow,
    /// Calls a function that does not exist, as a component does whose author left out the method.
    NoMethod,
    /// Answers with a reason of 5,000 bytes, where the answer is a `result`.
    LongReason,
    /// Answers with 2,000 reasons, where the answer is a `result`.
    ManyReasons,
}

impl GuestFault {
    fn text(self) -> &'static str {
        match self {
            GuestFault::Trap => "unreachable",
            GuestFault::Loop => "(loop $forever (br $forever))",
            GuestFault::ExhaustMemory => "(loop $more (drop (memory.grow (i32.const 16))) (br $more))",
            GuestFault::ExhaustStack => "(drop (call $deeper (i64.const 1)))",
            GuestFault::ReadBelow => "(drop (i32.load (i32.mul (memory.size) (i32.const -16))))",
            GuestFault::NoMethod => "(call_indirect $methods (type $method) (i32.const 0))",
            // The second page contains only zeros. The zeros are valid text, and also a valid list of empty texts.
            GuestFault::LongReason => {
                "(i32.store (i32.const 2112) (i32.const 65536)) (i32.store (i32.const 2116) (i32.const 5000))
                (return (call $refuse (i32.const 2112) (i32.const 1)))"
            }
            GuestFault::ManyReasons => "(return (call $refuse (i32.const 65536) (i32.const 2000)))",
        }
    }
}

const FUNCTIONS: &str = r"
  (type $method (func))
  (table $methods 1 funcref)
  (func $deeper (param $depth i64) (result i64)
    (i64.add (call $deeper (i64.add (local.get $depth) (i64.const 1))) (local.get $depth)))
  ;; `err` of a status with code unschedulable and these reasons.
  (func $refuse (param $reasons i32) (param $n i32) (result i32)
    (i32.store8 (i32.const 2048) (i32.const 1))
    (i32.store (i32.const 2052) (i32.const 2))
    (i32.store (i32.const 2056) (local.get $reasons))
    (i32.store (i32.const 2060) (local.get $n))
    (i32.const 2048))";

/// The plugin of this name with this fault at an extension point. The plugin does nothing else.
///
/// # Errors
/// The text does not assemble.
pub fn faults_at(name: &str, at: At, fault: GuestFault) -> Result<Vec<u8>> {
    points::plugin(name, at, fault.text(), (0, 0), FUNCTIONS)
}
