//! `fedgate cells list`, and the layout of lists.

use super::{
    args::{ListArgs, ListFormat},
    cluster::Cluster,
    error::{Error, Kind, plain},
    usage::{self, names_cell},
};
use jiff::Timestamp;
use serde_json::{Value, json};

const COLUMNS: [&str; 11] = [
    "NAME",
    "CITY",
    "OPEN",
    "READY",
    "MODE",
    "BINDINGS",
    "CELLS-IN-CITY",
    "MADE-BY",
    "AGE",
    "ENDPOINT",
    "VERSION",
];
/// Columns of the narrow form.
const NARROW: usize = 9;

/// Runs the command.
pub(super) async fn run(args: &ListArgs) -> Result<(), Error> {
    let hub = super::open_hub(&args.hub).await?;
    let clusters = hub.clusters().await?;
    let bindings = usage::list_bindings(&hub).await?;
    let rows = rows(&clusters, &bindings, Timestamp::now());
    let columns = if args.output == ListFormat::Wide {
        COLUMNS.len()
    } else {
        NARROW
    };
    print(args.output, "Cell", &COLUMNS[..columns], &rows)
}

fn rows(clusters: &[Value], bindings: &[Value], now: Timestamp) -> Vec<Vec<String>> {
    let of_city = |city: &str| {
        clusters
            .iter()
            .filter(|other| Cluster(other).city() == Some(city))
            .count()
    };
    let mut rows: Vec<Vec<String>> = clusters
        .iter()
        .map(Cluster)
        .map(|cluster| {
            let text = |path: &str| {
                cluster
                    .0
                    .pointer(path)
                    .and_then(Value::as_str)
                    .unwrap_or("-")
                    .to_owned()
            };
            let city = cluster.city();
            let open = city.is_some() && !cluster.is_cordoned();
            vec![
                cluster.name().to_owned(),
                city.unwrap_or("-").to_owned(),
                open.to_string(),
                cluster.condition("Ready").unwrap_or("Unknown").to_owned(),
                text("/spec/syncMode"),
                bindings
                    .iter()
                    .filter(|binding| names_cell(binding, cluster.name()))
                    .count()
                    .to_string(),
                city.map_or(0, of_city).to_string(),
                cluster.maker().as_str().to_owned(),
                age(&text("/metadata/creationTimestamp"), now),
                text("/spec/apiEndpoint"),
                text("/status/kubernetesVersion"),
            ]
        })
        .collect();
    rows.sort();
    rows
}

/// The time since a timestamp of a server: `5s`, `5m`, `5h`, `5d`.
pub(super) fn age(since: &str, now: Timestamp) -> String {
    let Ok(since) = since.parse::<Timestamp>() else {
        return "-".to_owned();
    };
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Prints rows in a format. `noun` is the kind in JSON and YAML; the first column is the name.
pub(super) fn print(
    format: ListFormat,
    noun: &str,
    columns: &[&str],
    rows: &[Vec<String>],
) -> Result<(), Error> {
    match format {
        ListFormat::Table | ListFormat::Wide => print!("{}", table(columns, rows)),
        ListFormat::Name => rows.iter().for_each(|row| println!("{}", plain(&row[0]))),
        ListFormat::Json => println!("{:#}", document(noun, columns, rows)),
        ListFormat::Yaml => {
            let text = serde_saphyr::to_string(&document(noun, columns, rows));
            print!(
                "{}",
                text.map_err(
                    |error| Error::new(Kind::Failed, "cannot print YAML").because(error.to_string())
                )?
            );
        }
    }
    Ok(())
}

/// A document of the rows: one object for each, with a field for each column.
fn document(noun: &str, columns: &[&str], rows: &[Vec<String>]) -> Value {
    let field = |column: &str| -> String {
        let mut words = column.split('-').map(str::to_lowercase);
        let first = words.next().unwrap_or_default();
        words.fold(first, |field, word| {
            let (head, tail) = word.split_at(1);
            format!("{field}{}{tail}", head.to_uppercase())
        })
    };
    let items: Vec<Value> = rows
        .iter()
        .map(|row| {
            columns
                .iter()
                .zip(row)
                .map(|(column, cell)| (field(column), json!(cell)))
                .collect()
        })
        .collect();
    json!({"apiVersion": "cli.fedgate.dev/v1", "kind": format!("{noun}List"), "items": items})
}

/// Columns of text with three spaces between them.
fn table(columns: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().take(columns.len()).map(|cell| plain(cell)).collect())
        .collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([columns[column].len()]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| -> String {
        let cells: Vec<String> = cells
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:width$}"))
            .collect();
        cells.join("   ").trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut columns.iter().copied());
    for row in &rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{
        super::{cluster::tests::cluster, usage::tests::binding},
        *,
    };

    #[test]
    fn each_cluster_of_the_hub_is_a_row() {
        let mut foreign = cluster("dfw-1", "1", Some("DFW"));
        foreign["metadata"]["annotations"] = json!({});
        let clusters = [
            cluster("dfw-2", "2", Some("DFW")),
            foreign,
            cluster("lhr-1", "3", None),
        ];
        let now = "2026-01-01T02:00:00Z".parse().unwrap();
        let rows = rows(&clusters, &[binding(&["dfw-1"], &[])], now);
        assert_eq!(
            table(&COLUMNS[..NARROW], &rows),
            "NAME    CITY   OPEN    READY   MODE   BINDINGS   CELLS-IN-CITY   MADE-BY   AGE\n\
             dfw-1   DFW    true    True    Push   1          2               other     2h\n\
             dfw-2   DFW    true    True    Push   0          2               command   2h\n\
             lhr-1   -      false   True    Push   0          0               role      2h\n"
        );
        let json = document("Cell", &COLUMNS, &rows);
        assert_eq!(json["items"][0]["cellsInCity"], "2");
        assert_eq!(json["kind"], "CellList");
    }

    #[test]
    fn an_age_has_one_unit() {
        let now = "2026-01-03T00:00:00Z".parse().unwrap();
        for (since, text) in [
            ("2026-01-02T23:59:55Z", "5s"),
            ("2026-01-02T23:50:00Z", "10m"),
            ("2026-01-01T00:00:00Z", "2d"),
            ("2027-01-01T00:00:00Z", "0s"),
            ("-", "-"),
        ] {
            assert_eq!(age(since, now), text);
        }
    }
}
