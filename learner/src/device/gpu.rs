//! GPUs through burn's wgpu runtime: Vulkan, Metal, DX12, WebGPU.

use burn::tensor::wgpu::WgpuBackend;
use burn::tensor::{Device, DeviceKind};

use super::{Chosen, DeviceError};

/// The GPU that wgpu prefers; an error where there is none, or only a software rasteriser.
pub(super) fn best() -> Result<Chosen, String> {
    let options = Device::wgpu_options();
    let device = options.init().map_err(|error| error.to_string())?;
    let identity = device.identity().ok_or("the device does not say what it is")?;
    if identity.physical.is_none() {
        return Err(format!("`{}` is a software device", identity.name));
    }
    Ok(Chosen { device, name: identity.name, why: "the best GPU that works here".into() })
}

/// `gpu`, `vulkan`, `metal`, `dx12` or `webgpu`, with `:N` for the N-th discrete card, or `:cpu`
/// for a software device.
pub(super) fn named(name: &str) -> Result<Chosen, DeviceError> {
    let (api, card) = name.split_once(':').unwrap_or((name, ""));
    let api = match api {
        "gpu" => WgpuBackend::Auto,
        "vulkan" => WgpuBackend::Vulkan,
        "metal" => WgpuBackend::Metal,
        "dx12" => WgpuBackend::Dx12,
        "webgpu" => WgpuBackend::WebGpu,
        _ => return Err(DeviceError::Unknown(name.into())),
    };
    let kind = match card {
        "" => DeviceKind::DefaultDevice,
        "cpu" => DeviceKind::Cpu,
        card => {
            DeviceKind::DiscreteGpu(card.parse().map_err(|_| DeviceError::Unknown(name.into()))?)
        }
    };
    let options = Device::wgpu_options().graphics_api(api).device_kind(kind);
    let device = options.init().map_err(|error| DeviceError::Unavailable {
        name: name.into(),
        reason: error.to_string(),
    })?;
    let described = device.identity().map_or_else(|| name.to_string(), |identity| identity.name);
    Ok(Chosen { device, name: described, why: "asked for".into() })
}
