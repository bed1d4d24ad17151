//! What this machine makes of sandboxes and policies, as numbers whose names end in their unit.

pub mod policy;
pub mod sandbox;
