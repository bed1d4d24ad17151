//! The environments that come inside the program, found by name.
//!
//! Only those whose component is small; the others stand in `env-examples/` as source.

/// Names and components, in the order in which they are shown.
const EXAMPLES: [(&str, &[u8]); 3] = [
    ("tictactoe", include_bytes!("../../env-examples/tictactoe/tictactoe.wasm")),
    ("arithmetic", include_bytes!("../../env-examples/arithmetic/arithmetic.wasm")),
    ("echo", include_bytes!("../../env-examples/echo/echo.wasm")),
];

/// Examples that have to be built first, because their component carries a whole Python.
const BY_SOURCE: [&str; 1] = ["guess-number"];

/// The names of the examples that [`find`] knows.
pub fn names() -> impl Iterator<Item = &'static str> {
    EXAMPLES.iter().map(|(name, _)| *name)
}

/// The component of an example.
pub fn find(name: &str) -> Option<&'static [u8]> {
    EXAMPLES.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
}

/// What to do to run an example that does not come inside the program; none for any other name.
pub fn how_to_build(name: &str) -> Option<String> {
    BY_SOURCE.contains(&name).then(|| {
        format!(
            "the example `{name}` is not part of this program, because its component carries a \
             whole Python: build it with `env-examples/build {name}`, then give the path \
             `env-examples/{name}/{name}.wasm`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{find, how_to_build, names};

    #[test]
    fn examples_are_found_by_name_only() {
        assert!(names().all(|name| find(name).is_some() && how_to_build(name).is_none()));
        assert!(find("guess-number").is_none());
        assert!(how_to_build("guess-number").is_some_and(|text| text.contains("env-examples")));
    }
}
