//! safetensors files: one, or several behind an index, read by name and shape; written as one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use safetensors::{SafeTensorError, SafeTensors};

use super::map::map;

/// A tensor to be written: its name, its shape, and its numbers in row-major order.
pub type NamedTensor<'a> = (String, Vec<usize>, &'a [f32]);

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// What a file is called until it is whole.
const PARTIAL: &str = ".model.safetensors.partial";

/// Why weights cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// Neither a single file nor an index is there.
    #[error("`{}` holds neither {SINGLE} nor {INDEX}: it is not a model directory", .0.display())]
    NoFiles(PathBuf),
    /// The operating system refuses.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// `read` or `write`.
        action: &'static str,
        /// What was to be read or written.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The index is not what it should be.
    #[error("`{}` is not an index of safetensors files: {reason}", path.display())]
    BadIndex {
        /// The index.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file is cut short or is something else.
    #[error(
        "`{}` is not a whole safetensors file: {source}; fetch or write it again",
        path.display()
    )]
    BadFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: SafeTensorError,
    },
    /// A tensor that the model needs is not there.
    #[error(
        "tensor `{name}` is missing in `{}`: the weights are not those of config.json",
        dir.display()
    )]
    Missing {
        /// The tensor.
        name: String,
        /// The model directory.
        dir: PathBuf,
    },
    /// A tensor has another shape than config.json asks for.
    #[error("tensor `{name}` has shape {found:?}, but config.json asks for {expected:?}")]
    Shape {
        /// The tensor.
        name: String,
        /// What config.json asks for.
        expected: Vec<usize>,
        /// What the file holds.
        found: Vec<usize>,
    },
    /// Numbers of a type that is not read.
    #[error("tensor `{name}` is of type {dtype:?}; F32, F16 and BF16 are read")]
    Dtype {
        /// The tensor.
        name: String,
        /// Its type.
        dtype: Dtype,
    },
    /// Numbers that no model computes with.
    #[error("tensor `{name}` holds infinities or NaN: the training that wrote it has diverged")]
    NotFinite {
        /// The tensor.
        name: String,
    },
}

/// The weights of a model directory, mapped and not yet read.
#[derive(Debug)]
pub struct WeightFiles {
    dir: PathBuf,
    files: Vec<WeightFile>,
    /// Which file holds which tensor.
    tensors: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct WeightFile {
    bytes: Mmap,
    header: Metadata,
    /// Where the header ends and the numbers begin.
    start: usize,
}

impl WeightFile {
    fn open(path: &Path) -> Result<WeightFile, WeightsError> {
        let bytes = map(path).map_err(|source| io("read", path, source))?;
        let bad = |source| WeightsError::BadFile { path: path.into(), source };
        let (length, header) = SafeTensors::read_metadata(&bytes).map_err(bad)?;
        Ok(WeightFile { start: size_of::<u64>() + length, bytes, header })
    }

    fn tensor(&self, name: &str) -> Option<(&TensorInfo, &[u8])> {
        let info = self.header.info(name)?;
        let (from, to) = info.data_offsets;
        Some((info, self.bytes.get(self.start + from..self.start + to)?))
    }
}

impl WeightFiles {
    /// Maps the directory's safetensors files and reads their headers.
    pub fn open(dir: &Path) -> Result<WeightFiles, WeightsError> {
        let mut weights = WeightFiles { dir: dir.into(), files: vec![], tensors: BTreeMap::new() };
        for path in paths(dir)? {
            let file = WeightFile::open(&path)?;
            let index = weights.files.len();
            let names = file.header.offset_keys().into_iter();
            weights.tensors.extend(names.map(|name| (name, index)));
            weights.files.push(file);
        }
        Ok(weights)
    }

    /// The names of all tensors, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The numbers of a tensor in row-major order; f16 and bf16 are widened.
    pub fn read_f32(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, WeightsError> {
        let missing = || WeightsError::Missing { name: name.into(), dir: self.dir.clone() };
        let file = &self.files[*self.tensors.get(name).ok_or_else(missing)?];
        let (info, bytes) = file.tensor(name).ok_or_else(missing)?;
        if info.shape != shape {
            return Err(WeightsError::Shape {
                name: name.into(),
                expected: shape.to_vec(),
                found: info.shape.clone(),
            });
        }
        let numbers = widen(name, info.dtype, bytes)?;
        match numbers.iter().all(|number| number.is_finite()) {
            true => Ok(numbers),
            false => Err(WeightsError::NotFinite { name: name.into() }),
        }
    }
}

/// Writes `model.safetensors` into a directory: under a temporary name first, so that what stood
/// there before is replaced whole or not at all.
pub fn write(dir: &Path, tensors: &[NamedTensor<'_>]) -> Result<(), WeightsError> {
    let path = dir.join(SINGLE);
    let bad = |source| WeightsError::BadFile { path: path.clone(), source };
    let mut infos = Vec::with_capacity(tensors.len());
    let mut end = 0;
    for (name, shape, numbers) in tensors {
        let data_offsets = (end, end + size_of_val(*numbers));
        end = data_offsets.1;
        let info = TensorInfo { dtype: Dtype::F32, shape: shape.clone(), data_offsets };
        infos.push((name.clone(), info));
    }
    let format = [("format".to_owned(), "pt".to_owned())];
    let header = Metadata::new(Some(format.into()), infos).map_err(bad)?;
    let mut header = serde_json::to_vec(&header).map_err(|error| bad(error.into()))?;
    // The numbers begin at a multiple of 8.
    header.resize(header.len().next_multiple_of(8), b' ');
    let partial = dir.join(PARTIAL);
    let save = || -> std::io::Result<()> {
        let mut file = BufWriter::with_capacity(1 << 20, File::create(&partial)?);
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        for number in tensors.iter().flat_map(|(_, _, numbers)| *numbers) {
            file.write_all(&number.to_le_bytes())?;
        }
        file.into_inner()?.sync_all()?;
        fs::rename(&partial, &path)
    };
    save().map_err(|source| {
        // On a full disk nothing is left behind; the first error is the one to tell.
        let _ = fs::remove_file(&partial);
        io("write", &path, source)
    })
}

fn paths(dir: &Path) -> Result<Vec<PathBuf>, WeightsError> {
    let single = dir.join(SINGLE);
    if single.exists() {
        return Ok(vec![single]);
    }
    let path = dir.join(INDEX);
    if !path.exists() {
        return Err(WeightsError::NoFiles(dir.into()));
    }
    let bad = |reason: String| WeightsError::BadIndex { path: path.clone(), reason };
    let text = fs::read(&path).map_err(|source| io("read", &path, source))?;
    let index: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
    let map = index["weight_map"].as_object();
    let map = map.ok_or_else(|| bad("it has no `weight_map`".into()))?;
    let mut names = std::collections::BTreeSet::new();
    for (tensor, file) in map {
        let file = file.as_str().filter(|file| !file.contains(['/', '\\']) && *file != "..");
        let file = file.ok_or_else(|| bad(format!("the file of `{tensor}` is not a file name")))?;
        names.insert(file.to_string());
    }
    Ok(names.into_iter().map(|name| dir.join(name)).collect())
}

fn widen(name: &str, dtype: Dtype, bytes: &[u8]) -> Result<Vec<f32>, WeightsError> {
    let pairs = || bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    Ok(match dtype {
        Dtype::F32 => {
            let quads = bytes.chunks_exact(4);
            quads.map(|quad| f32::from_le_bytes([quad[0], quad[1], quad[2], quad[3]])).collect()
        }
        Dtype::F16 => pairs().map(|bits| half::f16::from_bits(bits).to_f32()).collect(),
        Dtype::BF16 => pairs().map(|bits| half::bf16::from_bits(bits).to_f32()).collect(),
        dtype => return Err(WeightsError::Dtype { name: name.into(), dtype }),
    })
}

fn io(action: &'static str, path: &Path, source: std::io::Error) -> WeightsError {
    WeightsError::Io { action, path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::{ProptestConfig, any, proptest};

    use safetensors::tensor::Dtype;

    use super::{NamedTensor, WeightFiles, WeightsError, widen, write};

    fn sample(dir: &Path) {
        let tensors: [NamedTensor<'_>; 2] = [
            ("a".into(), vec![2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            ("b".into(), vec![2], &[-0.5, 1e-30]),
        ];
        write(dir, &tensors).unwrap();
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        sample(dir.path());
        let files = WeightFiles::open(dir.path()).unwrap();
        assert_eq!(files.names().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(files.read_f32("a", &[2, 3]).unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(files.read_f32("b", &[2]).unwrap(), [-0.5, 1e-30]);
    }

    #[test]
    fn an_index_joins_several_files() {
        let dir = tempfile::tempdir().unwrap();
        for (name, number) in [("one", 1.0f32), ("two", 2.0)] {
            write(dir.path(), &[(name.into(), vec![1], &[number])]).unwrap();
            let part = dir.path().join(format!("{name}.safetensors"));
            std::fs::rename(dir.path().join("model.safetensors"), part).unwrap();
        }
        let index = r#"{"weight_map": {"one": "one.safetensors", "two": "two.safetensors"}}"#;
        std::fs::write(dir.path().join("model.safetensors.index.json"), index).unwrap();
        let files = WeightFiles::open(dir.path()).unwrap();
        assert_eq!(files.read_f32("two", &[1]).unwrap(), [2.0]);
        let index = r#"{"weight_map": {"one": "../one.safetensors"}}"#;
        std::fs::write(dir.path().join("model.safetensors.index.json"), index).unwrap();
        assert!(matches!(WeightFiles::open(dir.path()), Err(WeightsError::BadIndex { .. })));
    }

    #[test]
    fn errors_name_the_tensor_and_what_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let error = WeightFiles::open(dir.path()).unwrap_err();
        assert!(error.to_string().contains("not a model directory"), "{error}");
        sample(dir.path());
        let files = WeightFiles::open(dir.path()).unwrap();
        let error = files.read_f32("c", &[1]).unwrap_err().to_string();
        assert!(error.contains("`c` is missing"), "{error}");
        let error = files.read_f32("a", &[3, 2]).unwrap_err().to_string();
        assert!(error.contains("`a`") && error.contains("[2, 3]") && error.contains("[3, 2]"));
    }

    #[test]
    fn half_precision_is_widened() {
        let bytes = |bits: [u16; 2]| bits.map(u16::to_le_bytes).concat();
        let numbers = widen("h", Dtype::F16, &bytes([0x3c00, 0xc000])).unwrap();
        assert_eq!(numbers, [1.0, -2.0]);
        let numbers = widen("h", Dtype::BF16, &bytes([0x3f80, 0xc000])).unwrap();
        assert_eq!(numbers, [1.0, -2.0]);
        let error = widen("h", Dtype::I16, &bytes([1, 2])).unwrap_err().to_string();
        assert!(error.contains("`h`") && error.contains("I16"), "{error}");
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &[("a".into(), vec![2], &[1.0, f32::NAN])]).unwrap();
        let files = WeightFiles::open(dir.path()).unwrap();
        let error = files.read_f32("a", &[2]).unwrap_err();
        assert!(matches!(error, WeightsError::NotFinite { .. }), "{error}");
        let wrong_count: [NamedTensor<'_>; 1] = [("a".into(), vec![3], &[1.0, 2.0])];
        assert!(matches!(write(dir.path(), &wrong_count), Err(WeightsError::BadFile { .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 300,
            failure_persistence: None,
            ..Default::default()
        })]

        #[test]
        fn a_damaged_file_is_an_error_and_never_a_panic(
            cut in 0usize..200,
            place in 0usize..200,
            byte in any::<u8>(),
        ) {
            let dir = tempfile::tempdir().unwrap();
            sample(dir.path());
            let path = dir.path().join("model.safetensors");
            let mut bytes = std::fs::read(&path).unwrap();
            let place = place.min(bytes.len() - 1);
            bytes[place] = byte;
            bytes.truncate(bytes.len() - cut.min(bytes.len()));
            std::fs::write(&path, bytes).unwrap();
            if let Ok(files) = WeightFiles::open(dir.path()) {
                let _ = files.read_f32("a", &[2, 3]);
            }
        }
    }
}
