//! Components seen through the framework's traits: what loads, what is refused, and what a fault costs.

mod cluster;
mod directory;
mod faults;
mod loading;
mod serving;
