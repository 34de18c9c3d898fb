//! Registers metrics and remembers them for the README's table.

use prometheus::{
    Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, core::Collector,
};
use std::borrow::Cow;

/// One row of the table of metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The metric's name.
    pub name: Cow<'static, str>,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// Its meaning.
    pub help: Cow<'static, str>,
}

/// The registry with the rows of its table.
pub(super) struct Registrar<'a> {
    pub(super) registry: &'a Registry,
    pub(super) rows: Vec<Row>,
}

type Built<T> = Result<T, prometheus::Error>;

impl Registrar<'_> {
    fn keep<C: Collector + Clone + 'static>(&mut self, row: Row, metric: C) -> Built<C> {
        self.registry.register(Box::new(metric.clone()))?;
        self.rows.push(row);
        Ok(metric)
    }

    pub(super) fn counters(
        &mut self,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Built<IntCounterVec> {
        self.keep(
            Row {
                name: name.into(),
                kind: "counter",
                labels,
                help: help.into(),
            },
            IntCounterVec::new(Opts::new(name, help), labels)?,
        )
    }

    pub(super) fn counter(&mut self, name: &'static str, help: &'static str) -> Built<IntCounter> {
        self.keep(
            Row {
                name: name.into(),
                kind: "counter",
                labels: &[],
                help: help.into(),
            },
            IntCounter::new(name, help)?,
        )
    }

    pub(super) fn gauges(
        &mut self,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Built<IntGaugeVec> {
        self.keep(
            Row {
                name: name.into(),
                kind: "gauge",
                labels,
                help: help.into(),
            },
            IntGaugeVec::new(Opts::new(name, help), labels)?,
        )
    }

    pub(super) fn seconds_gauges(
        &mut self,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Built<GaugeVec> {
        self.keep(
            Row {
                name: name.into(),
                kind: "gauge",
                labels,
                help: help.into(),
            },
            GaugeVec::new(Opts::new(name, help), labels)?,
        )
    }

    pub(super) fn gauge(&mut self, name: &'static str, help: &'static str) -> Built<IntGauge> {
        self.keep(
            Row {
                name: name.into(),
                kind: "gauge",
                labels: &[],
                help: help.into(),
            },
            IntGauge::new(name, help)?,
        )
    }

    pub(super) fn float_gauge(&mut self, name: &'static str, help: &'static str) -> Built<Gauge> {
        self.keep(
            Row {
                name: name.into(),
                kind: "gauge",
                labels: &[],
                help: help.into(),
            },
            Gauge::new(name, help)?,
        )
    }

    /// A histogram from 1 ms to 32 s.
    pub(super) fn seconds(
        &mut self,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Built<HistogramVec> {
        self.seconds_from(0.001, 16, name, labels, help)
    }

    /// A histogram of so many buckets, the first up to `first` seconds and each twice as wide as the one before.
    pub(super) fn seconds_from(
        &mut self,
        first: f64,
        buckets: usize,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Built<HistogramVec> {
        let buckets = prometheus::exponential_buckets(first, 2.0, buckets)?;
        let options = HistogramOpts::new(name, help).buckets(buckets);
        self.keep(
            Row {
                name: name.into(),
                kind: "histogram",
                labels,
                help: help.into(),
            },
            HistogramVec::new(options, labels)?,
        )
    }
}
