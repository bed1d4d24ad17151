//! Stands in for the parts of WASI that the host does not have, so that a component which imports
//! them without ever calling them still runs. A call ends the episode by a typed error.
//!
//! Language toolchains import more than their programs use: a JavaScript component imports
//! `wasi:http`.

use wasmtime::component::types::{ComponentInstance, ComponentItem};
use wasmtime::component::{Component, Linker, LinkerInstance, ResourceType};

use crate::fault::Unsupported;
use crate::sandbox::state::GuestState;

/// The interfaces that `wasmtime-wasi` answers, at every version that begins with 0.2.
const OFFERED: [&str; 27] = [
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
    "wasi:sockets/instance-network",
    "wasi:sockets/ip-name-lookup",
    "wasi:sockets/network",
    "wasi:sockets/tcp",
    "wasi:sockets/tcp-create-socket",
    "wasi:sockets/udp",
    "wasi:sockets/udp-create-socket",
];

fn is_offered(import: &str) -> bool {
    import.split_once('@').is_some_and(|(interface, version)| {
        version.starts_with("0.2.") && OFFERED.contains(&interface)
    })
}

/// Gives a linker a trap for every WASI function that `component` imports and the host does not
/// offer.
pub(super) fn add_to_linker(
    linker: &mut Linker<GuestState>,
    component: &Component,
) -> wasmtime::Result<()> {
    let engine = component.engine();
    let component_type = component.component_type();
    // A resource that an earlier import has defined is the same one here, not another.
    let mut known = Vec::new();
    for (name, item) in component_type.imports(engine) {
        let ComponentItem::ComponentInstance(instance) = item.ty else { continue };
        if name.starts_with("wasi:") && !is_offered(name) {
            stand_in(&mut linker.instance(name)?, name, &instance, component, &known)?;
        }
        known.extend(resources(&instance, component));
    }
    Ok(())
}

fn stand_in(
    linker: &mut LinkerInstance<'_, GuestState>,
    interface: &str,
    instance: &ComponentInstance,
    component: &Component,
    known: &[ResourceType],
) -> wasmtime::Result<()> {
    for (name, item) in instance.exports(component.engine()) {
        match item.ty {
            ComponentItem::ComponentFunc(_) => {
                let import = format!("{interface}#{name}");
                linker.func_new(name, move |_, _, _, _| Err(Unsupported(import.clone()).into()))?;
            }
            ComponentItem::Resource(resource) if !known.contains(&resource) => {
                linker.resource(name, ResourceType::host::<()>(), |_, _| Ok(()))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn resources<'a>(
    instance: &'a ComponentInstance,
    component: &'a Component,
) -> impl Iterator<Item = ResourceType> + 'a {
    let exports = instance.exports(component.engine());
    exports.filter_map(|(_, item)| match item.ty {
        ComponentItem::Resource(resource) => Some(resource),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use wasmtime::component::{Component, Linker};

    use super::is_offered;
    use crate::component::engine::engine;

    /// Imports `wasi:io/streams@0.2.0`, `wasi:random/random@0.2.3`, and a `wasi:http/types@0.2.0`
    /// with the first one's resource, one of its own, and a function.
    const IMPORTS: &[u8] =
        b"\0asm\x0d\0\x01\0\x07\x14\x01B\x01\x04\0\x0cinput-stream\x03\x01\x0a\x1a\x01\0\x15\
        wasi:io/streams@0.2.0\x05\0\x06\x11\x01\x03\0\0\x0cinput-stream\x079\x01B\x06\x02\
        \x03\x02\x01\x01\x04\0\x0cinput-stream\x03\0\0\x04\0\x06fields\x03\x01\x01h\x02\x01\
        @\x01\x02of\x03\0y\x04\0\x03ask\x01\x04\x0a\x1a\x01\0\x15wasi:http/types@0.2.0\x05\
        \x02\x07\x1b\x01B\x02\x01@\0\0w\x04\0\x0eget-random-u64\x01\0\x0a\x1d\x01\0\x18w\
        asi:random/random@0.2.3\x05\x03";

    #[test]
    fn what_is_not_offered_is_linked_as_a_trap_and_the_rest_is_real() {
        let engine = engine().unwrap();
        let component = Component::from_binary(engine, IMPORTS).unwrap();
        let mut linker = Linker::new(engine);
        crate::wasi::add_to_linker(&mut linker, &component).unwrap();
        linker.instantiate_pre(&component).unwrap();
        let mut is_free = |interface: &str, function: &str| {
            let mut interface = linker.instance(interface).unwrap();
            interface.func_new(function, |_, _, _, _| Ok(())).is_ok()
        };
        assert!(!is_free("wasi:http/types@0.2.0", "ask"));
        assert!(is_free("wasi:random/random@0.2.3", "get-random-u64"), "the real one is at 0.2.12");
    }

    #[test]
    fn every_version_of_the_second_preview_is_offered() {
        assert!(is_offered("wasi:cli/environment@0.2.9"));
        assert!(!is_offered("wasi:cli/environment@0.3.0"));
        assert!(!is_offered("wasi:http/types@0.2.0"));
        assert!(!is_offered("wasi:cli/environment"));
    }
}
