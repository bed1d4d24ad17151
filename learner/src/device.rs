//! Where tensors live: the device that was asked for, or the best that works, and why.
//!
//! Devices are probed before they are used, since naming one that is missing makes burn panic
//! later.

mod allocator;
#[cfg(feature = "gpu")]
mod gpu;

use burn::tensor::Device;

pub use allocator::keep_freed_memory;

/// A device that works.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// For tensors; never an autodiff device.
    pub device: Device,
    /// What it is, for people.
    pub name: String,
    /// Why it was chosen.
    pub why: String,
}

/// Why there is no device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// No device has this name.
    #[error(
        "unknown device `{0}`; known are auto, cpu, gpu, vulkan, metal, dx12 and webgpu, the GPU \
         ones with `:N` for the N-th card"
    )]
    Unknown(String),
    /// The program was built for the CPU alone.
    #[error(
        "device `{0}` needs a build with GPU support: `cargo run --release --features gpu -- ...`; \
         `--device cpu` works in this one"
    )]
    NotBuiltIn(String),
    /// The device is not there, or does not start.
    #[error("device `{name}` does not work here: {reason}; `--device auto` takes what works")]
    Unavailable {
        /// As it was asked for.
        name: String,
        /// What the graphics stack says.
        reason: String,
    },
}

/// The device of that name: `auto`, `cpu`, or one that needs feature `gpu`.
pub fn select(name: &str) -> Result<Chosen, DeviceError> {
    match name {
        "auto" => Ok(select_auto()),
        "cpu" => Ok(cpu("asked for")),
        name => select_gpu(name),
    }
}

/// Whether tensors of this device live on the CPU backend, where threads share the work.
pub fn is_cpu(device: &Device) -> bool {
    device.clone().inner() == Device::flex()
}

fn cpu(why: &str) -> Chosen {
    let threads = rayon::current_num_threads();
    let name = format!("cpu ({threads} thread{})", if threads == 1 { "" } else { "s" });
    Chosen { device: Device::flex(), name, why: why.to_string() }
}

#[cfg(feature = "gpu")]
fn select_auto() -> Chosen {
    gpu::best().unwrap_or_else(|reason| cpu(&format!("no GPU works here: {reason}")))
}

#[cfg(not(feature = "gpu"))]
fn select_auto() -> Chosen {
    cpu("this build has no GPU support; `--features gpu` adds it")
}

#[cfg(feature = "gpu")]
fn select_gpu(name: &str) -> Result<Chosen, DeviceError> {
    gpu::named(name)
}

#[cfg(not(feature = "gpu"))]
fn select_gpu(name: &str) -> Result<Chosen, DeviceError> {
    let api = name.split(':').next().unwrap_or(name);
    match api {
        "gpu" | "vulkan" | "metal" | "dx12" | "webgpu" => Err(DeviceError::NotBuiltIn(name.into())),
        _ => Err(DeviceError::Unknown(name.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_cpu, select};

    #[test]
    fn the_cpu_is_always_there_and_autodiff_does_not_hide_it() {
        let chosen = select("cpu").unwrap();
        assert!(is_cpu(&chosen.device) && is_cpu(&chosen.device.autodiff()));
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = select("abacus").unwrap_err().to_string();
        assert!(error.contains("`abacus`") && error.contains("vulkan"), "{error}");
    }
}
