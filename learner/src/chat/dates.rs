//! `strftime_now` for chat templates, on a day that never changes.
//!
//! A run must give the same tokens tomorrow as today, so "now" is the day that Llama's templates
//! name where there is no clock: 26 July 2024, midnight. Knows nothing of real clocks.

use minijinja::{Error, ErrorKind};

/// The template function `strftime_now(format)`.
///
/// # Errors
/// When the format holds a directive that no known template uses.
pub(super) fn strftime_now(format: &str) -> Result<String, Error> {
    let mut out = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        out.push_str(match characters.next() {
            Some('Y') => "2024",
            Some('y') => "24",
            Some('m') => "07",
            Some('B') => "July",
            Some('b') => "Jul",
            Some('d') => "26",
            Some('j') => "208",
            Some('A') => "Friday",
            Some('a') => "Fri",
            Some('H' | 'M' | 'S') => "00",
            Some('I') => "12",
            Some('p') => "AM",
            Some('F') => "2024-07-26",
            Some('T') => "00:00:00",
            Some('%') => "%",
            other => {
                let directive = other.map(String::from).unwrap_or_default();
                let message = format!("strftime_now: the directive %{directive} is not supported");
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::strftime_now;

    #[test]
    fn the_day_is_always_the_same() {
        assert_eq!(strftime_now("%d %b %Y").unwrap(), "26 Jul 2024");
        assert_eq!(strftime_now("%A, %d-%B-%y 100%%").unwrap(), "Friday, 26-July-24 100%");
        assert!(strftime_now("%Q").unwrap_err().to_string().contains("%Q"));
    }
}
