//! Tensors in files: safetensors in, safetensors out, and the files that belong beside them.
//!
//! Knows names, shapes and numbers; what they mean to a decoder is `model::parameters`' business.

mod directory;
mod map;
mod safetensors;

pub use self::directory::{copy_companions, write_directory};
pub use self::safetensors::{NamedTensor, WeightFiles, WeightsError, write};
