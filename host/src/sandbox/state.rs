//! What the host keeps for one guest, and what it answers when the guest calls out.
//!
//! The resource limiter refuses growth by a typed error, so that a fault names the limit instead of
//! the guest's own reaction to being refused. Knows nothing of turns.

use wasmtime::ResourceLimiter;
use wasmtime::component::{HasSelf, Linker};

use super::log::GuestLog;
use crate::bindings::art::env::{log, model, types};
use crate::fault::LimitHit;
use crate::limits::Limits;
use crate::wasi::Wasi;

/// What the host keeps for one guest.
pub(crate) struct GuestState {
    /// What the guest said besides its answers.
    pub(crate) log: GuestLog,
    /// The guest's share of WASI; none for a component that imports none of it.
    pub(crate) wasi: Option<Box<Wasi>>,
    limits: Limits,
    /// Bytes of all linear memories, as granted.
    pub(crate) memory_bytes: u64,
    /// Elements of all tables, as granted.
    table_elements: u64,
    /// Requests made to `art:env/model`.
    model_requests: u32,
}

impl GuestState {
    /// The state of a new guest; `seed` is where its randomness comes from, if it imports WASI.
    pub(crate) fn new(limits: &Limits, seed: u64, imports_wasi: bool) -> GuestState {
        let log = GuestLog::new(limits);
        let wasi = imports_wasi.then(|| Box::new(Wasi::new(limits, seed, log.clone())));
        GuestState {
            log,
            wasi,
            limits: *limits,
            memory_bytes: 0,
            table_elements: 0,
            model_requests: 0,
        }
    }
}

/// Gives a linker the imports of the contract.
pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    log::add_to_linker::<GuestState, HasSelf<GuestState>>(linker, |state| state)?;
    model::add_to_linker::<GuestState, HasSelf<GuestState>>(linker, |state| state)
}

impl ResourceLimiter for GuestState {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let asked = self.memory_bytes + (desired - current) as u64;
        let limit = self.limits.memory_bytes;
        if asked > limit {
            return Err(LimitHit::Memory { asked, limit }.into());
        }
        self.memory_bytes = asked;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let asked = self.table_elements + (desired - current) as u64;
        let limit = self.limits.table_elements;
        if asked > limit {
            return Err(LimitHit::Table { asked, limit }.into());
        }
        self.table_elements = asked;
        Ok(true)
    }

    fn instances(&self) -> usize {
        self.limits.instances as usize
    }

    fn tables(&self) -> usize {
        self.limits.instances as usize
    }

    fn memories(&self) -> usize {
        self.limits.instances as usize
    }
}

impl types::Host for GuestState {}

impl log::Host for GuestState {
    fn write(&mut self, level: log::Level, message: String) -> wasmtime::Result<()> {
        let level = match level {
            log::Level::Debug => "debug",
            log::Level::Info => "info",
            log::Level::Warn => "warn",
            log::Level::Error => "error",
        };
        Ok(self.log.line(level, &message)?)
    }
}

impl model::Host for GuestState {
    /// No run grants a budget yet, so every request is answered with an error that says so.
    fn complete(
        &mut self,
        requests: Vec<model::Request>,
    ) -> wasmtime::Result<Vec<Result<model::Reply, String>>> {
        let asked = u32::try_from(requests.len()).unwrap_or(u32::MAX).max(1);
        self.model_requests = self.model_requests.saturating_add(asked);
        if self.model_requests > self.limits.model_requests {
            return Err(LimitHit::ModelRequests(self.limits.model_requests).into());
        }
        let refusal = "this run grants no budget for model calls".to_owned();
        Ok(requests.iter().map(|_| Err(refusal.clone())).collect())
    }
}
