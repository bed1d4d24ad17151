//! WASI 0.2 for guests whose language brings it along: an empty world in which nothing is real.
//!
//! No files, no network, no environment, no arguments. Clocks are virtual: they stand still between
//! readings, and a sleep jumps. Randomness comes from the task's seed. What is written to stdout
//! and stderr goes to the guest's log. Interfaces that are not provided at all (`wasi:http`) trap
//! when they are called.

mod traps;

use art_learner::random::Key;
use bytes::Bytes;
use wasmtime::component::{Component, HasSelf, Linker, Resource};
use wasmtime_wasi::p2::bindings::clocks::{monotonic_clock, wall_clock};
use wasmtime_wasi::p2::bindings::{cli, random};
use wasmtime_wasi::p2::{
    DynOutputStream, DynPollable, OutputStream, Pollable, StreamError, StreamResult, subscribe,
};
use wasmtime_wasi::{ResourceTable, WasiCtx, WasiCtxView, WasiView, async_trait};

use crate::fault::LimitHit;
use crate::limits::Limits;
use crate::sandbox::log::{GuestLog, Stream};
use crate::sandbox::state::GuestState;

/// The date at which every episode begins: 2026-01-01T00:00:00Z.
const BEGIN_SECONDS: u64 = 1_767_225_600;

/// How far a clock moves at each reading. A guest that waits for a second by reading gives up after
/// a thousand.
const NANOSECONDS_PER_READING: u64 = 1_000_000;

/// What a stream takes at once; wasmtime allocates as much where a guest asks for zeroes.
const STREAM_PERMIT_BYTES: usize = 64 << 10;

/// One guest's share of WASI.
pub(crate) struct Wasi {
    context: WasiCtx,
    table: ResourceTable,
    log: GuestLog,
    /// Nanoseconds since the episode began, as the guest sees them.
    now: u64,
    key: Key,
    /// How many 64-bit numbers have been drawn.
    drawn: u64,
    /// What is left of `limits.random_bytes`.
    random_bytes_left: u64,
    random_bytes: u64,
}

impl Wasi {
    /// An empty WASI at the beginning of time, with randomness from `seed`.
    pub(crate) fn new(limits: &Limits, seed: u64, log: GuestLog) -> Wasi {
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles as usize);
        let mut context = WasiCtx::builder();
        context.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
        Wasi {
            context: context.build(),
            table,
            log,
            now: 0,
            key: Key::new(seed).named("wasi:random"),
            drawn: 0,
            random_bytes_left: limits.random_bytes,
            random_bytes: limits.random_bytes,
        }
    }

    fn read_clock(&mut self) -> u64 {
        self.now = self.now.saturating_add(NANOSECONDS_PER_READING);
        self.now
    }

    /// A pollable that is ready at once, by moving the clock to `when`.
    fn jump(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.now = self.now.max(when);
        let ready = self.table.push(Ready)?;
        subscribe(&mut self.table, ready)
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.key.bits(self.drawn)
    }

    fn draw_number(&mut self) -> wasmtime::Result<u64> {
        self.spend_randomness(8)?;
        Ok(self.draw())
    }

    fn draw_bytes(&mut self, count: u64) -> wasmtime::Result<Vec<u8>> {
        self.spend_randomness(count)?;
        let count = usize::try_from(count)?;
        let mut bytes = Vec::with_capacity(count.next_multiple_of(8));
        while bytes.len() < count {
            bytes.extend(self.draw().to_le_bytes());
        }
        bytes.truncate(count);
        Ok(bytes)
    }

    fn spend_randomness(&mut self, bytes: u64) -> Result<(), LimitHit> {
        let left = self.random_bytes_left.checked_sub(bytes.max(8));
        self.random_bytes_left = left.ok_or(LimitHit::Random(self.random_bytes))?;
        Ok(())
    }

    fn output(&mut self, stream: Stream) -> wasmtime::Result<Resource<DynOutputStream>> {
        let output: DynOutputStream = Box::new(LogStream { stream, log: self.log.clone() });
        Ok(self.table.push(output)?)
    }
}

/// Whether a component imports anything of WASI.
pub(crate) fn is_imported_by(component: &Component) -> bool {
    let component_type = component.component_type();
    component_type.imports(component.engine()).any(|(name, _)| name.starts_with("wasi:"))
}

/// Gives a linker all of WASI 0.2, and traps for what `component` imports of WASI besides.
pub(crate) fn add_to_linker(
    linker: &mut Linker<GuestState>,
    component: &Component,
) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_sync(linker)?;
    linker.allow_shadowing(true);
    wall_clock::add_to_linker::<GuestState, HasSelf<Wasi>>(linker, wasi)?;
    monotonic_clock::add_to_linker::<GuestState, HasSelf<Wasi>>(linker, wasi)?;
    random::random::add_to_linker::<GuestState, HasSelf<Wasi>>(linker, wasi)?;
    random::insecure::add_to_linker::<GuestState, HasSelf<Wasi>>(linker, wasi)?;
    random::insecure_seed::add_to_linker::<GuestState, HasSelf<Wasi>>(linker, wasi)?;
    cli::stdout::add_to_linker::<GuestState, HasSelf<Wasi>>(linker, wasi)?;
    cli::stderr::add_to_linker::<GuestState, HasSelf<Wasi>>(linker, wasi)?;
    linker.allow_shadowing(false);
    traps::add_to_linker(linker, component)
}

fn wasi(state: &mut GuestState) -> &mut Wasi {
    state.wasi.as_mut().expect("a component that imports WASI gets a share of it")
}

impl WasiView for GuestState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let wasi = wasi(self);
        WasiCtxView { ctx: &mut wasi.context, table: &mut wasi.table }
    }
}

impl wall_clock::Host for Wasi {
    fn now(&mut self) -> wasmtime::Result<wall_clock::Datetime> {
        let now = self.read_clock();
        Ok(wall_clock::Datetime {
            seconds: BEGIN_SECONDS + now / 1_000_000_000,
            nanoseconds: (now % 1_000_000_000) as u32,
        })
    }

    fn resolution(&mut self) -> wasmtime::Result<wall_clock::Datetime> {
        Ok(wall_clock::Datetime { seconds: 0, nanoseconds: NANOSECONDS_PER_READING as u32 })
    }
}

impl monotonic_clock::Host for Wasi {
    fn now(&mut self) -> wasmtime::Result<u64> {
        Ok(self.read_clock())
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(NANOSECONDS_PER_READING)
    }

    fn subscribe_instant(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.jump(when)
    }

    fn subscribe_duration(&mut self, nanoseconds: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.jump(self.now.saturating_add(nanoseconds))
    }
}

impl random::random::Host for Wasi {
    fn get_random_bytes(&mut self, count: u64) -> wasmtime::Result<Vec<u8>> {
        self.draw_bytes(count)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        self.draw_number()
    }
}

impl random::insecure::Host for Wasi {
    fn get_insecure_random_bytes(&mut self, count: u64) -> wasmtime::Result<Vec<u8>> {
        self.draw_bytes(count)
    }

    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        self.draw_number()
    }
}

impl random::insecure_seed::Host for Wasi {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        Ok((self.draw_number()?, self.draw_number()?))
    }
}

impl cli::stdout::Host for Wasi {
    fn get_stdout(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        self.output(Stream::Stdout)
    }
}

impl cli::stderr::Host for Wasi {
    fn get_stderr(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        self.output(Stream::Stderr)
    }
}

/// Ready at once.
struct Ready;

#[async_trait]
impl Pollable for Ready {
    async fn ready(&mut self) {}
}

/// An output stream that ends in the guest's log.
struct LogStream {
    stream: Stream,
    log: GuestLog,
}

#[async_trait]
impl Pollable for LogStream {
    async fn ready(&mut self) {}
}

impl OutputStream for LogStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.log.bytes(self.stream, &bytes).map_err(|hit| StreamError::Trap(hit.into()))
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(STREAM_PERMIT_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::{Wasi, monotonic_clock, random, wall_clock};
    use crate::fault::LimitHit;
    use crate::limits::Limits;
    use crate::sandbox::log::GuestLog;

    fn wasi(seed: u64) -> Wasi {
        let limits = Limits { random_bytes: 1000, handles: 10, ..Limits::default() };
        Wasi::new(&limits, seed, GuestLog::new(&limits))
    }

    #[test]
    fn clocks_begin_at_a_fixed_date_and_a_sleep_jumps() {
        let mut wasi = wasi(0);
        let first = wall_clock::Host::now(&mut wasi).unwrap();
        assert_eq!((first.seconds, first.nanoseconds), (1_767_225_600, 1_000_000));
        monotonic_clock::Host::subscribe_duration(&mut wasi, 3_600_000_000_000).unwrap();
        let second = wall_clock::Host::now(&mut wasi).unwrap();
        assert_eq!((second.seconds, second.nanoseconds), (1_767_229_200, 2_000_000));
        monotonic_clock::Host::subscribe_instant(&mut wasi, 5).unwrap();
        assert_eq!(monotonic_clock::Host::now(&mut wasi).unwrap(), 3_600_003_000_000);
    }

    #[test]
    fn sleepers_that_are_never_dropped_run_out_of_handles() {
        let mut wasi = wasi(0);
        let sleeps = |wasi: &mut Wasi| monotonic_clock::Host::subscribe_duration(wasi, 1).is_ok();
        assert!((0..100).any(|_| !sleeps(&mut wasi)));
    }

    #[test]
    fn randomness_is_the_seeds_and_bounded() {
        let draw = |seed| {
            let mut wasi = wasi(seed);
            let bytes = random::random::Host::get_random_bytes(&mut wasi, 13).unwrap();
            let number = random::insecure::Host::get_insecure_random_u64(&mut wasi).unwrap();
            (bytes, number, random::insecure_seed::Host::insecure_seed(&mut wasi).unwrap())
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_eq!(draw(1).0.len(), 13);
        let refused = random::random::Host::get_random_bytes(&mut wasi(1), 1001).unwrap_err();
        assert_eq!(refused.downcast_ref(), Some(&LimitHit::Random(1000)));
    }
}
