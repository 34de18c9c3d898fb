//! The gauges that a scrape sets from the state of a role.

use super::{Family, Metrics, families::Measure, process};
use std::{collections::BTreeMap, time::Duration};

/// Values of gauges by family and labels.
pub(super) type Values = BTreeMap<(Family, Vec<String>), f64>;

/// State of a role at a scrape; gauges are set from it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gauges {
    /// Keys that are ready to run.
    pub queue_ready: usize,
    /// Keys added since the start.
    pub queue_added: u64,
    /// Failures that gave way to older ones since the start.
    pub failures_dropped: u64,
    values: Values,
}

impl Gauges {
    /// Sets the value of a gauge with these labels.
    pub fn set(&mut self, family: Family, labels: &[&str], value: impl Measure) {
        *self.value(family, labels) = value.measure();
    }

    /// Adds to the value of a gauge with these labels, which begins at 0.
    pub fn add(&mut self, family: Family, labels: &[&str], value: impl Measure) {
        *self.value(family, labels) += value.measure();
    }

    /// Raises the value of a gauge with these labels to at least this one.
    pub fn raise(&mut self, family: Family, labels: &[&str], value: impl Measure) {
        let known = self.value(family, labels);
        *known = known.max(value.measure());
    }

    /// The value of a gauge with these labels, if it has one.
    pub fn get(&self, family: Family, labels: &[&str]) -> Option<f64> {
        self.values.get(&key(family, labels)).copied()
    }

    fn value(&mut self, family: Family, labels: &[&str]) -> &mut f64 {
        self.values.entry(key(family, labels)).or_default()
    }
}

fn key(family: Family, labels: &[&str]) -> (Family, Vec<String>) {
    (family, labels.iter().map(|label| (*label).to_owned()).collect())
}

impl Metrics {
    /// Sets the gauges; the values that a scrape does not mention are those of [`Metrics::scrape_at_least`].
    pub(super) fn scrape(&self, figures: &Gauges) {
        let mut values = self.defaults.lock().clone();
        values.extend(figures.values.iter().map(|(key, value)| (key.clone(), *value)));
        self.families.reset_scraped();
        for family in Family::ALL.iter().filter(|family| family.row().labels.is_empty()) {
            self.begin(*family, &[]);
        }
        self.set(Family::QueueDepth, &[self.queue_name], figures.queue_ready);
        self.set(Family::MemoryLimit, &[], process::memory_limit());
        let (mut sum, mut longest) = (Duration::ZERO, Duration::ZERO);
        for (controller, began) in self.under_way.lock().values() {
            let age = began.elapsed();
            (sum, longest) = (sum + age, longest.max(age));
            *values
                .entry(key(Family::ActiveWorkers, &[controller]))
                .or_default() += 1.0;
        }
        self.set(Family::UnfinishedWork, &[self.queue_name], sum);
        self.set(Family::LongestReconcile, &[self.queue_name], longest);
        for ((family, labels), value) in &values {
            let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
            self.set(*family, &labels, *value);
        }
        self.count_up_to(Family::QueueAdds, &[self.queue_name], figures.queue_added);
        self.count_up_to(Family::FailuresDropped, &[], figures.failures_dropped);
    }

    /// The value of a gauge with these labels in a scrape that does not mention it.
    pub(super) fn scrape_at_least(&self, family: Family, labels: &[&str], value: f64) {
        self.defaults.lock().insert(key(family, labels), value);
    }
}
