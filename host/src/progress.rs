//! What a person sees while a run goes on: a live line on a terminal, plain lines now and then
//! elsewhere.
//!
//! The work sends [`Event`]s and never waits for the display; the display owns standard error.
//! Standard output belongs to results. Nothing that is shown here is read back to steer.

mod watched;

use std::io::IsTerminal;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

pub use watched::Watched;

/// How often a line is written where nothing can be redrawn.
const PLAIN_EVERY: Duration = Duration::from_secs(5);

/// Something worth showing.
#[derive(Clone, Debug)]
pub enum Event {
    /// A line that stays: which device, which policy.
    Note(String),
    /// Episodes begin to be played that are not training: a measurement, a warm start.
    Playing {
        /// What for.
        stage: String,
        /// How many.
        episodes: u64,
    },
    /// One episode of the stage is over.
    Played,
    /// Training begins.
    Training {
        /// How many updates it will have.
        updates: u64,
    },
    /// One update is done.
    Updated(Pulse),
}

/// An update in a line.
#[derive(Clone, Debug)]
pub struct Pulse {
    /// Which, from 1.
    pub update: u64,
    /// The mean reward of its rollout.
    pub reward: f64,
    /// The share of its episodes that were solved.
    pub success: Option<f64>,
    /// The mean entropy of the sampled tokens' distributions, in nats.
    pub entropy: f64,
    /// The mean divergence of the policy after from the policy before, per token.
    pub kl: f64,
    /// Sampled tokens a second, over rollout and learning together.
    pub tokens_per_s: f64,
    /// Episodes that failed or were left out of the update.
    pub dropped: u64,
}

/// Where the work sends its events.
#[derive(Clone, Debug)]
pub struct Events(Option<flume::Sender<Event>>);

impl Events {
    /// Events that nobody looks at.
    pub fn silent() -> Events {
        Events(None)
    }

    /// Shows an event; lost without harm when the display is gone.
    pub fn send(&self, event: Event) {
        if let Some(sender) = &self.0 {
            let _ = sender.send(event);
        }
    }

    /// Shows a line that stays.
    pub fn note(&self, line: impl Into<String>) {
        self.send(Event::Note(line.into()));
    }
}

/// The display's thread.
#[derive(Debug)]
pub struct Display {
    events: Events,
    thread: JoinHandle<()>,
}

impl Display {
    /// Starts to show events on standard error.
    pub fn start() -> Display {
        let (sender, receiver) = flume::unbounded();
        let mut screen = Screen::new(std::io::stderr().is_terminal());
        let thread = std::thread::spawn(move || {
            receiver.iter().for_each(|event| screen.show(event));
            screen.clear();
        });
        Display { events: Events(Some(sender)), thread }
    }

    /// Where to send events.
    pub fn events(&self) -> Events {
        self.events.clone()
    }

    /// Shows what is left and hands standard error back. Every clone of its [`Events`] must be
    /// gone.
    pub fn finish(self) {
        drop(self.events);
        if self.thread.join().is_err() {
            eprintln!("the progress display failed; the run itself goes on");
        }
    }
}

/// What is on the screen now.
struct Screen {
    /// The line that is redrawn; none where nothing can be.
    bar: Option<ProgressBar>,
    /// The stage's name, how much of it is done, and of how much.
    stage: String,
    done: u64,
    total: u64,
    /// When the stage began.
    since: Instant,
    /// When the last plain line was written.
    written: Instant,
    /// How long the last stage of play took: what the measurement after training will take again.
    play_seconds: f64,
}

impl Screen {
    fn new(terminal: bool) -> Screen {
        let now = Instant::now();
        let bar = terminal.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{prefix} [{bar:24}] {pos}/{len} {msg}");
            bar.set_style(style.expect("the template is valid").progress_chars("=> "));
            bar
        });
        Screen {
            bar,
            stage: String::new(),
            done: 0,
            total: 0,
            since: now,
            written: now,
            play_seconds: 0.0,
        }
    }

    fn show(&mut self, event: Event) {
        match event {
            Event::Note(line) => self.line(&line),
            Event::Playing { stage, episodes } => self.begin(stage, episodes),
            Event::Training { updates } => {
                self.play_seconds = self.since.elapsed().as_secs_f64();
                self.begin("training".into(), updates);
            }
            Event::Played => {
                self.done += 1;
                let rate = self.done as f64 / self.since.elapsed().as_secs_f64().max(1e-3);
                self.redraw(&format!("episodes, {rate:.0}/s"), "", false);
            }
            Event::Updated(pulse) => {
                self.done = pulse.update;
                let left = format!("updates, {} left", clock(self.seconds_left()));
                self.redraw(&left, &describe(&pulse), pulse.update == 1);
            }
        }
    }

    fn begin(&mut self, stage: String, total: u64) {
        self.since = Instant::now();
        self.done = 0;
        self.total = total;
        if let Some(bar) = &self.bar {
            bar.set_prefix(stage.clone());
            bar.set_message("");
            bar.set_length(total);
            bar.set_position(0);
        } else {
            eprintln!(
                "{stage}: {total} {}",
                if stage == "training" { "updates" } else { "episodes" }
            );
        }
        self.stage = stage;
    }

    /// Shows where the stage stands. Where nothing can be redrawn, a line is written only if it is
    /// time for one, the stage is done, or it `must`.
    fn redraw(&mut self, state: &str, details: &str, must: bool) {
        if let Some(bar) = &self.bar {
            bar.set_position(self.done);
            bar.set_message(format!("{state}\n  {details}").trim_end().to_owned());
        } else if must || self.written.elapsed() >= PLAIN_EVERY || self.done == self.total {
            self.written = Instant::now();
            let line = format!("{} {}/{} {state}  {details}", self.stage, self.done, self.total);
            eprintln!("{}", line.trim_end());
        }
    }

    /// For the rest of the updates and the measurement after them.
    fn seconds_left(&self) -> f64 {
        let per_update = self.since.elapsed().as_secs_f64() / self.done.max(1) as f64;
        per_update * self.total.saturating_sub(self.done) as f64 + self.play_seconds
    }

    fn line(&self, line: &str) {
        match &self.bar {
            Some(bar) if !self.stage.is_empty() => bar.suspend(|| eprintln!("{line}")),
            _ => eprintln!("{line}"),
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// An update in a line that fits a terminal of 80 columns.
fn describe(pulse: &Pulse) -> String {
    let success = pulse.success.map_or(String::new(), |share| format!("success {share:.2}, "));
    let dropped = match pulse.dropped {
        0 => String::new(),
        count => format!(", dropped {count}"),
    };
    format!(
        "reward {:.3}, {success}entropy {:.3}, KL {:.4}, {:.0} tokens/s{dropped}",
        pulse.reward, pulse.entropy, pulse.kl, pulse.tokens_per_s,
    )
}

/// Seconds as `1:05`.
pub fn clock(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    format!("{}:{:02}", whole / 60, whole % 60)
}

#[cfg(test)]
mod tests {
    use super::{Display, Event, Events, clock};

    #[test]
    fn times_read_as_minutes_and_seconds() {
        assert_eq!([clock(0.2), clock(65.4), clock(600.0)], ["0:00", "1:05", "10:00"]);
    }

    #[test]
    fn a_display_ends_when_its_events_do() {
        Events::silent().note("nobody sees this");
        let display = Display::start();
        let events = display.events();
        events.send(Event::Playing { stage: "before".into(), episodes: 1 });
        events.send(Event::Played);
        drop(events);
        display.finish();
        assert_eq!(clock(1.0), "0:01");
    }
}
