//! `cloud cost`: what a database stores, for whom, and what that costs.

use std::path::Path;

use clap::Args;
use serde_json::Value;
use siltstone_cloud::{Amount, Measured, Share, measure};
use siltstone_s3::Prices;

use super::place::{Opened, Place, Tries};
use crate::errors::{Exit, Failure, Outcome};
use crate::output::{Cell, Context, Record};

const COLUMNS: [&str; 5] = ["what", "count", "size_bytes", "dollars", "per"];

/// Tell what is stored, for whom, and what it costs a month
#[derive(Args, Debug)]
pub(crate) struct CostArgs {
    #[command(flatten)]
    place: Place,
    /// What is paid: standard, express, or a JSON file with thousand_writes, thousand_reads, gigabyte_sent,
    /// gigabyte_received and gigabyte_month, in dollars
    #[arg(long, value_name = "PRICES", default_value = "standard")]
    prices: String,
}

pub(crate) fn run(args: &CostArgs, context: &Context) -> Outcome {
    let prices = prices(&args.prices)?;
    let opened = args.place.priced(prices).open(Tries::Short)?;
    let measured = measure(&opened.home).map_err(|error| opened.explain(error))?;
    let measured = measured.ok_or_else(|| opened.absent())?;
    context.rows(&COLUMNS, rows(&measured, &prices, &opened))?;
    Ok(Exit::Ok)
}

fn rows(measured: &Measured, prices: &Prices, opened: &Opened) -> Vec<Record> {
    let stored = |what: &str, amount: Amount| {
        let dollars = Cell::Ratio(prices.dollars_a_month(amount.bytes));
        row(what, amount.objects, Cell::Size(amount.bytes), dollars, "month")
    };
    let shares = Share::ALL.iter().zip(&measured.shares);
    let used = shares.filter(|(_, amount)| amount.objects > 0);
    let mut rows: Vec<Record> = used.map(|(share, amount)| stored(share.text(), *amount)).collect();
    rows.push(stored("all that is stored", measured.total()));
    if measured.borrowed.objects > 0 {
        let Amount { objects, bytes } = measured.borrowed;
        let what = "tables of parents, paid for there";
        rows.push(row(what, objects, Cell::Size(bytes), Cell::Missing, "month"));
    }
    let meter = opened.bucket.meter();
    let (requests, dollars) = (meter.requests(), Cell::Ratio(meter.dollars()));
    rows.push(row("requests of this command", requests, Cell::Missing, dollars, "run"));
    rows
}

fn row(what: &str, count: u64, bytes: Cell, dollars: Cell, per: &str) -> Record {
    vec![
        ("what", Cell::text(what)),
        ("count", Cell::Count(count)),
        ("size_bytes", bytes),
        ("dollars", dollars),
        ("per", Cell::text(per)),
    ]
}

fn prices(text: &str) -> Result<Prices, Failure> {
    match text {
        "standard" => Ok(Prices::STANDARD),
        "express" => Ok(Prices::EXPRESS),
        path => prices_of(Path::new(path)),
    }
}

/// A table of prices, of which none may be left out: a price that is zero by mistake looks like a bargain.
fn prices_of(path: &Path) -> Result<Prices, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::file("read", path, &error).detail(KNOWN_PRICES))?;
    let wrong = |what: &str| {
        let headline = format!("{} has {what}", path.display());
        Failure::usage(headline).detail(KNOWN_PRICES)
    };
    let json: Value =
        serde_json::from_str(&text).map_err(|error| wrong(&format!("no JSON: {error}")))?;
    let price = |name: &str| {
        let found = json.get(name).and_then(Value::as_f64);
        let price = found.filter(|price| price.is_finite() && *price >= 0.0);
        price.ok_or_else(|| wrong(&format!("no price {name}")))
    };
    Ok(Prices {
        thousand_writes: price("thousand_writes")?,
        thousand_reads: price("thousand_reads")?,
        gigabyte_sent: price("gigabyte_sent")?,
        gigabyte_received: price("gigabyte_received")?,
        gigabyte_month: price("gigabyte_month")?,
    })
}

const KNOWN_PRICES: &str =
    "--prices is standard, express, or a JSON file with five prices: see --help";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_all_there_or_refused() {
        let path = std::env::temp_dir().join(format!("siltstone-prices-{}", std::process::id()));
        let all = "{\"thousand_writes\": 1, \"thousand_reads\": 0.5, \"gigabyte_sent\": 0, \
                   \"gigabyte_received\": 0, \"gigabyte_month\": 2}";
        std::fs::write(&path, all).unwrap();
        assert_eq!(prices_of(&path).unwrap().gigabyte_month, 2.0);
        for text in ["", "{}", "[]", &all.replace("0.5", "-1"), &all.replace("0.5", "\"x\"")] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(prices_of(&path).unwrap_err().exit, Exit::Usage, "{text}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(prices("cheap").unwrap_err().exit, Exit::Usage);
        assert_eq!(prices("express").unwrap(), Prices::EXPRESS);
    }
}
