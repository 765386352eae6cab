//! What the checks found: failures, which end the run badly, and warnings, which do not.

use std::fmt;

#[derive(Default)]
pub(crate) struct Report {
    failures: Vec<String>,
    warnings: Vec<String>,
}

impl Report {
    pub(crate) fn fail(&mut self, path: &str, line: usize, message: impl fmt::Display) {
        self.failures.push(format!("{path}:{line}: {message}"));
    }

    pub(crate) fn warn(&mut self, path: &str, line: usize, message: impl fmt::Display) {
        self.warnings.push(format!("{path}:{line}: {message}"));
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.failures.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn failures(&self) -> &[String] {
        &self.failures
    }

    #[cfg(test)]
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        for failure in &self.failures {
            writeln!(f, "error: {failure}")?;
        }
        writeln!(f, "tidy: {} errors, {} warnings", self.failures.len(), self.warnings.len())
    }
}
