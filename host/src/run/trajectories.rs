//! Trajectory files: one JSON object a line, compressed with zstd where the name ends in `.zst`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use anyhow::Context;
use art_learner::conversation::Trajectory;

use super::atomic;

/// zstd's own default: the files are written between rounds, so speed matters more than the last
/// percent.
const LEVEL: i32 = 3;

/// Writes the trajectories, whole file or none.
pub fn write(path: &Path, trajectories: &[Trajectory]) -> anyhow::Result<()> {
    let compressed = path.extension().is_some_and(|extension| extension == "zst");
    atomic::write(path, |file| {
        if !compressed {
            return write_lines(file, trajectories);
        }
        let mut encoder = zstd::stream::write::Encoder::new(file, LEVEL)?;
        write_lines(&mut encoder, trajectories)?;
        encoder.finish().map(|_| ())
    })
}

/// Writes the trajectories to a stream, such as standard output.
pub fn write_lines(out: &mut impl Write, trajectories: &[Trajectory]) -> std::io::Result<()> {
    for trajectory in trajectories {
        serde_json::to_writer(&mut *out, trajectory)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Reads a file of either kind.
///
/// # Errors
/// Names the file and the first line that is not a trajectory.
pub fn read(path: &Path) -> anyhow::Result<Vec<Trajectory>> {
    let file = File::open(path).with_context(|| format!("cannot open `{}`", path.display()))?;
    let compressed = path.extension().is_some_and(|extension| extension == "zst");
    let reader: Box<dyn Read> =
        if compressed { Box::new(zstd::stream::read::Decoder::new(file)?) } else { Box::new(file) };
    let mut trajectories = Vec::new();
    for (index, line) in BufReader::new(reader).lines().enumerate() {
        let place = || format!("`{}`, line {}", path.display(), index + 1);
        let line = line.with_context(place)?;
        trajectories.push(serde_json::from_str(&line).with_context(place)?);
    }
    Ok(trajectories)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use art_learner::conversation::{Ending, Task, Trajectory};

    #[test]
    fn both_kinds_read_back() {
        let task = Task { split: "train".into(), index: 1, seed: 2, config: "{}".into() };
        let trajectory = Trajectory {
            episode: 3,
            environment: "e".into(),
            component: "c".into(),
            task,
            policy_seed: 4,
            turns: vec![],
            ending: Ending::Terminated,
            rewards: BTreeMap::from([("x".into(), 0.1 + 0.2)]),
            rows: vec![],
        };
        let folder = tempfile::tempdir().unwrap();
        for name in ["t.jsonl", "t.jsonl.zst"] {
            let path = folder.path().join(name);
            super::write(&path, &[trajectory.clone(), trajectory.clone()]).unwrap();
            assert_eq!(super::read(&path).unwrap(), [trajectory.clone(), trajectory.clone()]);
        }
    }
}
