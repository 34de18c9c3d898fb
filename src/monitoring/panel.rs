//! Sections and panels, as the dashboard is made of them.

/// A row of the dashboard.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// Its title.
    pub title: &'static str,
    /// Its panels.
    pub panels: &'static [Panel],
}

/// A panel: expressions, each with the template of its legend.
#[derive(Debug, Clone, Copy)]
pub struct Panel {
    /// Its title.
    pub title: &'static str,
    /// The unit, as Grafana calls it.
    pub unit: &'static str,
    /// True if it shows the last value alone, as a number.
    pub is_figure: bool,
    /// Expressions with their legends.
    pub targets: &'static [(&'static str, &'static str)],
}

type Targets = &'static [(&'static str, &'static str)];

/// A panel with the last value as a number.
pub(super) const fn figure(title: &'static str, unit: &'static str, targets: Targets) -> Panel {
    Panel {
        title,
        unit,
        is_figure: true,
        targets,
    }
}

/// A panel with a graph.
pub(super) const fn graph(title: &'static str, unit: &'static str, targets: Targets) -> Panel {
    Panel {
        title,
        unit,
        is_figure: false,
        targets,
    }
}

/// A number of objects.
pub(super) const COUNT: &str = "short";
/// A time.
pub(super) const SECONDS: &str = "s";
/// Operations in a second.
pub(super) const RATE: &str = "ops";
