//! The sandbox through its HTTP border: recorded exchanges, a recorded story, and what happens by itself.

#![expect(clippy::expect_used, reason = "a test ends where its footing is gone")]

mod compare;
mod http;
mod life;
mod recorded;
mod replay;
mod story;
