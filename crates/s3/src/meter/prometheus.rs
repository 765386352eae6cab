//! Counts in the text format that Prometheus reads. Called by whoever serves metrics.

use std::fmt::Write;
use std::time::Duration;

use super::{PurposeUse, Snapshot, Verb, VerbUse};
use crate::trouble::Class;

/// Bounds of the times that are told; finer ones would be a hundred lines for each purpose and verb.
const BOUNDS_MS: [u64; 14] =
    [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 60_000];

impl Snapshot {
    /// All counts as Prometheus text. What was never asked is left out.
    pub fn prometheus(&self) -> String {
        let mut text = String::new();
        self.requests_text(&mut text);
        self.times_text(&mut text);
        self.extras_text(&mut text);
        head(&mut text, "cost_dollars", "What requests cost so far.", "counter");
        for used in self.used() {
            // A billionth of a dollar is less than any request costs.
            let dollars = format!("{:.9}", used.dollars(&self.prices));
            let purpose = used.purpose.name();
            line(&mut text, "cost_dollars", &[("purpose", purpose)], dollars);
        }
        text
    }

    fn used(&self) -> impl Iterator<Item = &PurposeUse> {
        self.by_purpose.iter().filter(|used| used.requests() > 0)
    }

    fn verbs(&self) -> impl Iterator<Item = ([(&'static str, &'static str); 2], &VerbUse)> {
        self.used().flat_map(|used| {
            let verbs = Verb::ALL.iter().zip(&used.verbs).filter(|(_, verb)| verb.requests > 0);
            verbs.map(|(verb, counts)| {
                ([("purpose", used.purpose.name()), ("verb", verb.name())], counts)
            })
        })
    }

    fn requests_text(&self, text: &mut String) {
        type Count = fn(&VerbUse) -> u64;
        let metrics: [(&str, &str, Count); 3] = [
            ("requests_total", "Requests sent, retries included.", |used| used.requests),
            ("sent_bytes_total", "Bytes of requests' bodies.", |used| used.sent_bytes),
            ("received_bytes_total", "Bytes of answers' bodies.", |used| used.received_bytes),
        ];
        for (name, help, count) in metrics {
            head(text, name, help, "counter");
            self.verbs().for_each(|(labels, used)| line(text, name, &labels, count(used)));
        }
    }

    fn times_text(&self, text: &mut String) {
        head(text, "request_seconds", "How long answers took to be whole.", "histogram");
        for ([purpose, verb], used) in self.verbs() {
            for bound in BOUNDS_MS.map(Duration::from_millis) {
                // A bucket counts below a bound once all of it lies there.
                let within = used.times.cumulative().take_while(|(upper, _)| *upper <= bound);
                let count = within.last().map_or(0, |(_, passed)| passed);
                let le = bound.as_secs_f64().to_string();
                line(text, "request_seconds_bucket", &[purpose, verb, ("le", &le)], count);
            }
            let (count, total) = (used.times.count(), used.times.total.as_secs_f64());
            line(text, "request_seconds_bucket", &[purpose, verb, ("le", "+Inf")], count);
            line(text, "request_seconds_sum", &[purpose, verb], total);
            line(text, "request_seconds_count", &[purpose, verb], count);
        }
    }

    fn extras_text(&self, text: &mut String) {
        type Count = fn(&PurposeUse) -> u64;
        let metrics: [(&str, &str, Count); 3] = [
            ("retries_total", "Attempts after a failed one.", |used| used.retries),
            ("hedges_total", "Second requests for late reads.", |used| used.hedges),
            ("hedges_won_total", "Second requests answered first.", |used| used.hedges_won),
        ];
        for (name, help, count) in metrics {
            head(text, name, help, "counter");
            for used in self.used() {
                line(text, name, &[("purpose", used.purpose.name())], count(used));
            }
        }
        head(text, "errors_total", "Failed attempts, by class.", "counter");
        for used in self.used() {
            let errors = Class::ALL.iter().zip(&used.errors).filter(|(_, count)| **count > 0);
            for (class, count) in errors {
                let labels = [("purpose", used.purpose.name()), ("class", class.name())];
                line(text, "errors_total", &labels, count);
            }
        }
    }
}

fn head(text: &mut String, name: &str, help: &str, kind: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "# HELP siltstone_s3_{name} {help}");
    let _ = writeln!(text, "# TYPE siltstone_s3_{name} {kind}");
}

/// No label's value needs escapes: all are names of ours, or numbers.
fn line(text: &mut String, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
    let labels: Vec<String> =
        labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
    let _ = writeln!(text, "siltstone_s3_{name}{{{}}} {value}", labels.join(","));
}

#[cfg(test)]
mod tests {
    use siltstone_cloud::Purpose;

    use crate::meter::{Meter, Prices, Tag, Verb};
    use crate::trouble::Class;
    use std::time::Duration;

    #[test]
    fn text_has_what_was_asked_and_nothing_else() {
        let meter = Meter::default();
        let tag = Tag { purpose: Purpose::CompactIn, verb: Verb::Get };
        meter.asked(tag, 0);
        meter.answered(tag, 77, Duration::from_millis(30));
        meter.failed(tag, Class::Timeout);
        let text = meter.snapshot(Prices::STANDARD).prometheus();
        for line in [
            "siltstone_s3_requests_total{purpose=\"compact-in\",verb=\"get\"} 1",
            "siltstone_s3_received_bytes_total{purpose=\"compact-in\",verb=\"get\"} 77",
            "siltstone_s3_request_seconds_bucket{purpose=\"compact-in\",verb=\"get\",le=\"0.025\"} 0",
            "siltstone_s3_request_seconds_bucket{purpose=\"compact-in\",verb=\"get\",le=\"0.05\"} 1",
            "siltstone_s3_request_seconds_bucket{purpose=\"compact-in\",verb=\"get\",le=\"+Inf\"} 1",
            "siltstone_s3_request_seconds_sum{purpose=\"compact-in\",verb=\"get\"} 0.03",
            "siltstone_s3_errors_total{purpose=\"compact-in\",class=\"timeout\"} 1",
            "siltstone_s3_cost_dollars{purpose=\"compact-in\"} 0.000000400",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\nin\n{text}");
        }
        assert!(!text.contains("flush") && !text.contains("verb=\"put\""), "{text}");
    }
}
