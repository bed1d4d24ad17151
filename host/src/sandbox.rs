//! One instance of a component in a store of its own, under limits: the place where one episode is
//! played.
//!
//! A sandbox plays one episode and is dropped. After a fault its store is never entered again. What
//! happens in it is fixed by the component, the seed, the limits and the calls; it knows nothing of
//! policies, rewards or other sandboxes.

pub(crate) mod log;
pub(crate) mod state;

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use art_learner::conversation::{Action, Message, Prompt, Reward, Task};
use wasmtime::Store;
use wasmtime::component::Instance;

use self::state::GuestState;
use crate::bindings::art::env::types;
use crate::bindings::{environment, expert};
use crate::component::compiled::Compiled;
use crate::component::{Component, Description, ticker};
use crate::fault::{Cause, Circumstances, Fault, LimitHit};
use crate::limits::Limits;

/// What an environment answers to `start` or `step`.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Who must act now; none when the episode is over.
    pub prompts: Vec<Prompt>,
    /// What was earned since the turn before.
    pub rewards: Vec<Reward>,
    /// Whether the task was solved, where the environment says so.
    pub success: Option<bool>,
    /// Numbers worth a curve.
    pub metrics: BTreeMap<String, f64>,
    /// Fuel that it took, making the instance included in the first turn's.
    pub fuel: u64,
}

/// One instance of a component, for one episode.
pub struct Sandbox {
    guest: Guest,
    environment: environment::Guest,
    /// Looked up when the expert is first asked, as most episodes never do.
    expert: Option<expert::Guest>,
    expert_indices: Option<expert::GuestIndices>,
}

impl Sandbox {
    /// Makes an instance. `seed` is where the randomness comes from that the guest takes from its
    /// system.
    ///
    /// # Errors
    /// A guest fault if the instance breaks a limit or traps while it is made, a host fault if the
    /// machine or the pool has no room for it.
    pub fn new(component: &Component, limits: &Limits, seed: u64) -> Result<Sandbox, Fault> {
        Sandbox::of_compiled(component.compiled(), limits, seed)
    }

    /// Makes an instance of a component that has not described itself yet.
    pub(crate) fn of_compiled(
        compiled: &Compiled,
        limits: &Limits,
        seed: u64,
    ) -> Result<Sandbox, Fault> {
        let mut guest = Guest::new(compiled, limits, seed)?;
        let indices = compiled.environment().ok_or_else(|| {
            Fault::new(Cause::Host("it is no environment".into()), compiled.name())
        })?;
        let environment = guest.load(|store, instance| indices.load(store, instance))?;
        let expert_indices = compiled.expert().cloned();
        Ok(Sandbox { guest, environment, expert: None, expert_indices })
    }

    /// What the environment says of itself.
    ///
    /// # Errors
    /// As for [`Sandbox::start`].
    pub fn describe(&mut self) -> Result<Description, Fault> {
        let environment = &self.environment;
        let (description, _) =
            self.guest.call("describe", |store| environment.call_describe(store))?;
        Ok(description.into())
    }

    /// Begins the episode.
    ///
    /// # Errors
    /// A guest fault if the guest traps, breaks a limit or answers with an error; a host fault if
    /// the machine fails. The sandbox is of no use afterwards.
    pub fn start(&mut self, task: &Task) -> Result<Turn, Fault> {
        let (environment, task) = (&self.environment, task.into());
        let (answer, fuel) =
            self.guest.call("start", |store| environment.call_start(store, &task))?;
        self.guest.turn("start", answer, fuel)
    }

    /// Hands over the answers to all prompts of the last turn, in their order.
    ///
    /// # Errors
    /// As for [`Sandbox::start`].
    pub fn step(&mut self, actions: &[Action]) -> Result<Turn, Fault> {
        let environment = &self.environment;
        let actions: Vec<types::Action> = actions.iter().map(types::Action::from).collect();
        let (answer, fuel) =
            self.guest.call("step", |store| environment.call_step(store, &actions))?;
        self.guest.turn("step", answer, fuel)
    }

    /// What a good player would answer now in the place of a prompted agent; none if it cannot say,
    /// or there is none.
    ///
    /// # Errors
    /// As for [`Sandbox::start`].
    pub fn expert(&mut self, agent: &str) -> Result<Option<Message>, Fault> {
        let Some(indices) = &self.expert_indices else { return Ok(None) };
        let expert = match self.expert.take() {
            Some(expert) => expert,
            None => self.guest.load(|store, instance| indices.load(store, instance))?,
        };
        let answer = self.guest.call("act", |store| expert.call_act(store, agent));
        self.expert = Some(expert);
        Ok(answer?.0.map(Message::from))
    }

    /// Bytes of the guest's linear memories, as they have grown to.
    pub fn memory_bytes(&self) -> u64 {
        self.guest.store.data().memory_bytes
    }

    /// The guest's kept log lines so far.
    pub fn log(&self) -> Vec<String> {
        self.guest.store.data().log.kept()
    }
}

/// A store with an instance in it, and what is left of its budgets.
pub(crate) struct Guest {
    store: Store<GuestState>,
    instance: Instance,
    name: Arc<str>,
    limits: Limits,
    /// What is left of `limits.fuel_per_episode`.
    fuel_left: u64,
    /// Fuel that was burnt but not yet reported in a turn.
    fuel_unreported: u64,
    /// Whether a fault has ended the guest.
    is_spent: bool,
}

impl Guest {
    /// Makes a store and an instance in it.
    pub(crate) fn new(compiled: &Compiled, limits: &Limits, seed: u64) -> Result<Guest, Fault> {
        let state = GuestState::new(limits, seed, compiled.imports_wasi());
        let mut store = Store::new(compiled.engine(), state);
        store.limiter(|state| state);
        store.set_hostcall_fuel(usize::try_from(limits.hostcall_bytes).unwrap_or(usize::MAX));
        store.set_max_component_handles(limits.handles as usize);
        store.set_epoch_deadline(ticker::ticks(limits.step_wall_ms));
        let budget = limits.fuel_per_step.min(limits.fuel_per_episode);
        let instance = store
            .set_fuel(budget)
            .and_then(|()| compiled.instance_pre().instantiate(&mut store))
            .map_err(|error| {
                let cause = Cause::of(&error, circumstances(limits, budget, false));
                let place = format!("making an instance of {}", compiled.name());
                Fault { cause, place, log: store.data().log.kept() }
            })?;
        let burnt = budget - store.get_fuel().unwrap_or(0);
        Ok(Guest {
            store,
            instance,
            name: compiled.shared_name(),
            limits: *limits,
            fuel_left: limits.fuel_per_episode - burnt,
            fuel_unreported: burnt,
            is_spent: false,
        })
    }

    /// Looks an interface up.
    pub(crate) fn load<G>(
        &mut self,
        load: impl FnOnce(&mut Store<GuestState>, &Instance) -> wasmtime::Result<G>,
    ) -> Result<G, Fault> {
        load(&mut self.store, &self.instance)
            .map_err(|error| Fault::new(Cause::Host(format!("{error:#}")), &*self.name))
    }

    /// Calls the guest with fresh fuel for a step. Returns its answer and the fuel to report.
    pub(crate) fn call<A>(
        &mut self,
        function: &'static str,
        call: impl FnOnce(&mut Store<GuestState>) -> wasmtime::Result<A>,
    ) -> Result<(A, u64), Fault> {
        if self.is_spent {
            let cause = Cause::Host("the sandbox was used again after a fault".into());
            return Err(self.fault(function, cause));
        }
        let budget = self.limits.fuel_per_step.min(self.fuel_left);
        self.store.set_epoch_deadline(ticker::ticks(self.limits.step_wall_ms));
        let answer = self.store.set_fuel(budget).and_then(|()| call(&mut self.store));
        match answer {
            Ok(answer) => {
                let burnt = budget - self.store.get_fuel().unwrap_or(0);
                self.fuel_left -= burnt;
                let reported = burnt + mem::take(&mut self.fuel_unreported);
                Ok((answer, reported))
            }
            Err(error) => {
                let circumstances = circumstances(&self.limits, self.fuel_left, true);
                Err(self.fault(function, Cause::of(&error, circumstances)))
            }
        }
    }

    fn turn(
        &mut self,
        function: &'static str,
        answer: Result<types::Turn, String>,
        fuel: u64,
    ) -> Result<Turn, Fault> {
        match answer {
            Ok(turn) => Ok(Turn {
                prompts: turn.prompts.into_iter().map(Prompt::from).collect(),
                rewards: turn.rewards.into_iter().map(Reward::from).collect(),
                success: turn.success,
                metrics: turn
                    .metrics
                    .into_iter()
                    .map(|metric| (metric.name, metric.value))
                    .collect(),
                fuel,
            }),
            Err(text) => Err(self.error(function, text)),
        }
    }

    /// The fault of a guest that answered with the contract's error, which ends it.
    pub(crate) fn error(&mut self, function: &'static str, text: String) -> Fault {
        self.fault(function, Cause::Error(text))
    }

    /// A fault in a call, which ends the guest.
    fn fault(&mut self, function: &'static str, cause: Cause) -> Fault {
        self.is_spent = true;
        let place = format!("`{function}` of {}", self.name);
        Fault { cause, place, log: self.store.data().log.kept() }
    }
}

fn circumstances(limits: &Limits, fuel_left: u64, is_guest_running: bool) -> Circumstances {
    let fuel = match fuel_left < limits.fuel_per_step {
        true => LimitHit::FuelPerEpisode(limits.fuel_per_episode),
        false => LimitHit::FuelPerStep(limits.fuel_per_step),
    };
    Circumstances {
        fuel,
        step_wall_ms: limits.step_wall_ms,
        hostcall_bytes: limits.hostcall_bytes,
        handles: limits.handles,
        is_guest_running,
    }
}
