//! Everything that an exact resume needs: weights, adapters, moments and counters, in one
//! directory.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

use super::{Learner, LearnerConfig};
use crate::model::parameters::read;
use crate::optimizer::Moments;
use crate::weights::{NamedTensor, WeightFiles, copy_companions, write, write_directory};

const STATE: &str = "learner.json";

/// The counters of a learner.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    policy_version: u64,
    updates: u64,
    optimizer_steps: u64,
    adapter_rank: usize,
}

impl Learner {
    /// Writes a checkpoint directory, whole or not at all; one that exists is not overwritten.
    pub fn save_checkpoint(&self, dir: &Path) -> Result<()> {
        write_directory(dir, |dir| {
            copy_companions(&self.origin, dir)?;
            let state = State {
                policy_version: self.policy_version,
                updates: self.updates,
                optimizer_steps: self.optimizer.steps,
                adapter_rank: self.config.adapter_rank,
            };
            std::fs::write(dir.join(STATE), serde_json::to_string_pretty(&state)?)?;
            self.write_tensors(dir)
        })
        .with_context(|| format!("cannot write the checkpoint `{}`", dir.display()))
    }

    /// A learner that goes on where the checkpoint was written, bit for bit on the same device.
    ///
    /// # Errors
    /// If the checkpoint is not whole, or was written with another adapter rank.
    pub fn resume(dir: &Path, device: &Device, config: LearnerConfig) -> Result<Learner> {
        let text = std::fs::read_to_string(dir.join(STATE)).with_context(|| {
            format!("`{}` is not a checkpoint: cannot read {STATE}", dir.display())
        })?;
        let state: State = serde_json::from_str(&text)
            .with_context(|| format!("`{}` is damaged", dir.join(STATE).display()))?;
        ensure!(
            state.adapter_rank == config.adapter_rank,
            "the checkpoint has adapters of rank {}, the run asks for {}: set grpo.adapter_rank",
            state.adapter_rank,
            config.adapter_rank
        );
        let mut learner = Learner::load(dir, device, config)?;
        learner.read_tensors(dir, device)?;
        learner.policy_version = state.policy_version;
        learner.updates = state.updates;
        learner.optimizer.steps = state.optimizer_steps;
        Ok(learner)
    }

    /// The decoder's tensors under the names that a model file has, for [`Learner::load`]; the rest
    /// as we hold them.
    fn write_tensors(&self, dir: &Path) -> Result<()> {
        let mut held = vec![];
        let mut decoder = self.decoder.clone();
        for parameter in decoder.parameters() {
            held.push(parameter.to_stored()?);
        }
        for (name, moments) in self.trained_names().into_iter().zip(&self.optimizer.moments) {
            for (kind, tensor) in [("first", &moments.first), ("second", &moments.second)] {
                let name = format!("optimizer.{kind}.{name}");
                held.push((name, tensor.dims().to_vec(), read(tensor.clone())?));
            }
        }
        let mut reference = self.reference.clone();
        for parameter in reference.iter_mut().flat_map(|reference| reference.parameters()) {
            let (name, shape, numbers) = parameter.to_stored()?;
            held.push((format!("reference.{name}"), shape, numbers));
        }
        let tensors: Vec<NamedTensor<'_>> = held
            .iter()
            .map(|(name, shape, numbers)| (name.clone(), shape.clone(), numbers.as_slice()))
            .collect();
        Ok(write(dir, &tensors)?)
    }

    /// What [`Learner::load`] does not read of a checkpoint: adapters, moments, the reference.
    fn read_tensors(&mut self, dir: &Path, device: &Device) -> Result<()> {
        let files = WeightFiles::open(dir)?;
        for mut parameter in self.decoder.parameters() {
            parameter.set_stored(&files, "", device)?;
        }
        for parameter in self.reference.iter_mut().flat_map(|reference| reference.parameters()) {
            let mut parameter = parameter;
            parameter.set_stored(&files, "reference.", device)?;
        }
        let has_moments = files.names().any(|name| name.starts_with("optimizer."));
        let names = if has_moments { self.trained_names() } else { vec![] };
        let mut decoder = self.decoder.clone();
        let mut shapes = decoder.parameters().into_iter().filter(|parameter| parameter.trained);
        let mut moments = vec![];
        for name in names {
            let shape = shapes.next().context("every trained name has a tensor")?.tensor.dims();
            let tensor = |kind: &str| -> Result<Tensor<2>> {
                let numbers = files.read_f32(&format!("optimizer.{kind}.{name}"), &shape)?;
                Ok(Tensor::<1>::from_floats(numbers.as_slice(), device).reshape(shape))
            };
            moments.push(Moments { first: tensor("first")?, second: tensor("second")? });
        }
        self.optimizer.moments = moments;
        Ok(())
    }

    fn trained_names(&self) -> Vec<String> {
        let mut decoder = self.decoder.clone();
        let trained = decoder.parameters().into_iter().filter(|parameter| parameter.trained);
        trained.map(|parameter| parameter.name).collect()
    }
}
