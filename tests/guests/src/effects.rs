//! Plugins that ask for effects.

use anyhow::Result;

use crate::points::{self, At};

/// An effect, in the order of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedEffect {
    Bind,
    /// A merge patch of an object: kind, namespace, name and body.
    Patch([String; 4]),
    /// A new object: kind, namespace and body.
    Create([String; 3]),
    /// An object: kind, namespace and name.
    Delete([String; 3]),
    /// A pod: namespace, name and uid; and the message for it.
    Evict([String; 4]),
    /// A pod's uid.
    Allow(String),
    /// A pod's uid, and a reason.
    Reject([String; 2]),
    /// A pod's uid.
    Activate(String),
    /// A pod's uid, and a node.
    Nominate([String; 2]),
    /// Reason, action and note.
    Event([String; 3]),
    /// An object: kind, namespace and name. The wait lasts a minute.
    Wait([String; 3]),
}

/// The size of an effect in memory. Its content begins at its eighth byte.
const SIZE: usize = 56;

/// The address of the effects: the second page, which is for answers.
const BASE: usize = 65_536;

/// The plugin of this name that asks for these effects at each call. The point is PostFilter, Permit, PreBind or Bind.
///
/// # Errors
/// The text does not assemble.
pub fn asks_for(name: &str, at: At, effects: &[WantedEffect]) -> Result<Vec<u8>> {
    let mut bytes = vec![0; effects.len() * SIZE];
    for (number, effect) in effects.iter().enumerate() {
        let words = effect.encode(&mut bytes);
        bytes.splice(number * SIZE..(number + 1) * SIZE, words);
    }
    let data: String = bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
    let data = format!("(data (i32.const {BASE}) \"{data}\")");
    points::plugin(name, at, "", (u32::try_from(BASE)?, u32::try_from(effects.len())?), &data)
}

impl WantedEffect {
    fn case(&self) -> u32 {
        match self {
            WantedEffect::Bind => 0,
            WantedEffect::Patch(_) => 1,
            WantedEffect::Create(_) => 2,
            WantedEffect::Delete(_) => 3,
            WantedEffect::Evict(_) => 4,
            WantedEffect::Allow(_) => 5,
            WantedEffect::Reject(_) => 6,
            WantedEffect::Activate(_) => 7,
            WantedEffect::Nominate(_) => 8,
            WantedEffect::Event(_) => 9,
            WantedEffect::Wait(_) => 10,
        }
    }

    /// The effect in its memory layout. The texts to which the effect points are appended to `bytes`.
    fn encode(&self, bytes: &mut Vec<u8>) -> Vec<u8> {
        let mut words = vec![self.case(), 0];
        let mut text = |text: &String| place(bytes, text.as_bytes());
        match self {
            WantedEffect::Bind => {}
            WantedEffect::Patch([kind, namespace, name, body]) => {
                words.extend([kind, namespace, name].into_iter().flat_map(&mut text));
                // The effect has no subresource.
                words.extend([0, 0, 0]);
                words.extend(text(body));
            }
            WantedEffect::Create(texts) | WantedEffect::Delete(texts) => words.extend(texts.iter().flat_map(text)),
            WantedEffect::Evict(texts) => words.extend(texts.iter().flat_map(text)),
            WantedEffect::Allow(uid) => words.extend(text(uid)),
            WantedEffect::Reject(texts) => words.extend(texts.iter().flat_map(text)),
            WantedEffect::Activate(uid) => {
                let uid = text(uid);
                words.extend(list(bytes, &uid));
            }
            WantedEffect::Nominate([uid, node]) => {
                words.extend(text(uid));
                words.push(1);
                words.extend(text(node));
            }
            WantedEffect::Event(texts) => {
                // The event is a warning.
                words.push(1);
                words.extend(texts.iter().flat_map(text));
            }
            WantedEffect::Wait(texts) => {
                let object: Vec<u32> = texts.iter().flat_map(&mut text).collect();
                let message = text(&"the wait is over".to_owned());
                words.extend(list(bytes, &object));
                words.extend([60_000, 0]);
                words.extend(message);
            }
        }
        words.resize(SIZE / 4, 0);
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }
}

/// A list with one element of these words.
fn list(bytes: &mut Vec<u8>, element: &[u32]) -> [u32; 2] {
    while !bytes.len().is_multiple_of(8) {
        bytes.push(0);
    }
    let element: Vec<u8> = element.iter().flat_map(|word| word.to_le_bytes()).collect();
    let [at, _] = place(bytes, &element);
    [at, 1]
}

/// The address of the appended bytes, and their number.
fn place(bytes: &mut Vec<u8>, new: &[u8]) -> [u32; 2] {
    let word = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let at = word(BASE + bytes.len());
    bytes.extend_from_slice(new);
    [at, word(new.len())]
}
