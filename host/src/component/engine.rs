//! The process's one wasmtime engine: which WASM is allowed, how it is metered, how instances are
//! pooled.
//!
//! One engine, because stores of two must never meet, and one, because the pool reserves address
//! space. What is switched off here is what no supported language needs and what brought past
//! advisories (threads, memory64, garbage collection). Knows nothing of the contract.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

use wasmparser::WasmFeatures;
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::ticker;

/// The stack of a guest. Below what a rayon or main thread has, with room for a host call on top.
const STACK_BYTES: usize = 512 << 10;

/// Instances alive at once. About 6 memory maps each, so that they stay below Linux's usual 65 530
/// in all.
pub(crate) const INSTANCES_MAX: u32 = 4_000;

/// Core instances of them; a Python component has 14.
const CORE_INSTANCES_MAX: u32 = 64_000;

/// Linear memories of them; a QuickJS component has 3. Each reserves 4 GiB of addresses, 32 TiB of
/// the 128 there are.
pub(crate) const MEMORIES_MAX: u32 = 8_000;

/// Tables of them; a Python component has 2.
pub(crate) const TABLES_MAX: u32 = 16_000;

/// Elements of each table; a Python component has 5 700, a C# one over 10 000.
const TABLE_ELEMENTS_MAX: usize = 100_000;

/// Bytes of a memory, and of a table, that are reset in place rather than given back to the kernel.
/// Only of use where the kernel tells which pages are dirty (`PAGEMAP_SCAN`, Linux 6.7); without
/// that, resetting costs more than it saves.
const KEEP_RESIDENT_BYTES: usize = 512 << 10;

/// The process's engine, made when it is first asked for.
///
/// # Errors
/// In words, if this machine cannot run WASM at all.
pub(crate) fn engine() -> Result<&'static Engine, String> {
    static ENGINE: OnceLock<Result<Engine, String>> = OnceLock::new();
    ENGINE.get_or_init(make).as_ref().map_err(Clone::clone)
}

/// Every WASM feature that a component may use.
pub(super) fn features() -> WasmFeatures {
    // Multi-memory stays on: wasmtime needs it for the adapters that it generates itself, and
    // panics without.
    let floor = WasmFeatures::WASM2.difference(WasmFeatures::GC_TYPES);
    floor
        | WasmFeatures::COMPONENT_MODEL
        | WasmFeatures::EXTENDED_CONST
        | WasmFeatures::MULTI_MEMORY
        | WasmFeatures::TAIL_CALL
}

/// A number that differs between engines whose compiled code is not interchangeable.
pub(super) fn compatibility(engine: &Engine) -> u64 {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.finish()
}

fn make() -> Result<Engine, String> {
    // The reservation fails under `ulimit -v` and on machines with few address bits.
    let engine = Engine::new(&config(Some(pool()))).or_else(|error| {
        tracing::info!("instances are not pooled: {error:#}");
        Engine::new(&config(None))
    });
    let engine = engine.map_err(|error| format!("wasmtime does not start: {error:#}"))?;
    ticker::start(&engine).map_err(|error| format!("no thread for the wall clock: {error}"))?;
    Ok(engine)
}

fn config(pool: Option<PoolingAllocationConfig>) -> Config {
    let mut config = Config::new();
    config.wasm_features(WasmFeatures::WASM3, false);
    config.wasm_features(features(), true);
    config.consume_fuel(true).epoch_interruption(true).concurrency_support(false);
    config.cranelift_nan_canonicalization(true).relaxed_simd_deterministic(true);
    config.memory_init_cow(true).max_wasm_stack(STACK_BYTES);
    match pool {
        Some(pool) => {
            config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        }
        // Where addresses are scarce, bounds are checked in code instead of by 4 GiB of guard
        // pages. That is slower, and burns the same fuel.
        None => {
            config.memory_reservation(16 << 20).memory_guard_size(64 << 10);
            config.memory_reservation_for_growth(64 << 20);
        }
    }
    config
}

fn pool() -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(INSTANCES_MAX)
        .total_core_instances(CORE_INSTANCES_MAX)
        .total_memories(MEMORIES_MAX)
        .total_tables(TABLES_MAX)
        .table_elements(TABLE_ELEMENTS_MAX)
        .max_memories_per_module(4)
        .max_tables_per_module(4)
        .max_component_instance_size(4 << 20)
        .max_core_instance_size(4 << 20);
    if PoolingAllocationConfig::is_pagemap_scan_available() {
        pool.pagemap_scan(Enabled::Yes)
            .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
            .table_keep_resident(KEEP_RESIDENT_BYTES);
    }
    pool
}

#[cfg(test)]
mod tests {
    use super::{compatibility, config, engine, pool};
    use wasmtime::Engine;

    #[test]
    fn both_ways_to_make_an_engine_work_and_their_code_is_kept_apart() {
        let pooled = Engine::new(&config(Some(pool()))).unwrap();
        let unpooled = Engine::new(&config(None)).unwrap();
        assert_ne!(compatibility(&pooled), compatibility(&unpooled));
    }

    #[test]
    fn there_is_one_engine() {
        assert!(Engine::same(engine().unwrap(), engine().unwrap()));
    }
}
