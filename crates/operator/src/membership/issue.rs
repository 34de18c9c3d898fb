//! `fedgate cells credential`: the cell's account on the hub.

use super::{
    args::{CredentialAction, CredentialArgs, ListFormat},
    change::{Verb, mark, may_delete},
    credential,
    drain::find,
    executor::Executor,
    join::hand_out,
    plane::Plane,
    registration::member_mark,
    rotation,
};
use fedgate_terminal::{
    error::{Error, Kind},
    write::say,
};
use std::path::Path;

/// Runs the command.
pub(super) async fn run(args: &CredentialArgs) -> Result<(), Error> {
    let hub = super::open_hub(&args.cell.hub).await?;
    let mut executor = Executor::new(args.write.mode(None));
    match args.action {
        CredentialAction::Rotate => rotate(&mut executor, &hub, args).await,
        CredentialAction::Revoke => revoke(&mut executor, &hub, &args.cell.name).await,
        CredentialAction::Show => show(&hub, &args.cell.name).await,
    }
}

/// Karmada's credential for the cell, the cell's credential for the hub, or both, as the flags say.
async fn rotate(executor: &mut Executor, hub: &Plane, args: &CredentialArgs) -> Result<(), Error> {
    let member = super::open_cell(&args.cell).await?;
    if member.is_none() && args.out.is_none() {
        return Err(Error::new(Kind::Usage, "rotate needs to know which credential").next(
            "--cell-kubeconfig FILE for Karmada's token at the cell; --out FILE, or --out - for standard output, for the \
             cell's token of the hub",
        ));
    }
    if let Some(member) = &member {
        rotation::rotate(executor, hub, member, args).await?;
    }
    match &args.out {
        Some(out) => reissue(executor, hub, args, out).await,
        None => Ok(()),
    }
}

/// A new token of the cell for the hub, as a file.
async fn reissue(
    executor: &mut Executor,
    hub: &Plane,
    args: &CredentialArgs,
    out: &Path,
) -> Result<(), Error> {
    let clusters = hub.clusters().await?;
    let cluster = find(&args.cell.name, &clusters)?;
    let mark = mark(cluster.0).map_or_else(|| member_mark(cluster.id()), str::to_owned);
    credential::ensure_account(executor, hub, &args.cell.name, &mark, &[]).await?;
    if !executor.writes() {
        say(&format!("would issue a token of cell {}", args.cell.name));
        return Ok(());
    }
    let endpoint = args.hub_endpoint.as_deref();
    let text = credential::kubeconfig(hub, endpoint, &args.cell.name, args.lifetime, None).await?;
    hand_out(out, &text)
}

async fn revoke(executor: &mut Executor, hub: &Plane, name: &str) -> Result<(), Error> {
    let Some(account) = hub.live(&credential::account_object(name)).await? else {
        say(&format!(
            "cell {name} has no account on the hub; nothing to change"
        ));
        return Ok(());
    };
    if !mark(&account).is_some_and(|own| may_delete(&account, own)) {
        return Err(Error::new(
            Kind::Refused,
            format!("the account of cell {name} was made by another program"),
        )
        .next(format!("kubectl -n fedgate-cells delete serviceaccount {name}")));
    }
    executor.run(hub, Verb::Delete, account).await?;
    say(&format!(
        "the tokens of cell {name} end within 10 s; a client certificate does not"
    ));
    Ok(())
}

async fn show(hub: &Plane, name: &str) -> Result<(), Error> {
    let account = hub.live(&credential::account_object(name)).await?;
    let account = account.ok_or_else(|| {
        Error::new(Kind::NotFound, format!("cell {name} has no account on the hub"))
            .next(format!("fedgate cells credential {name} rotate --out FILE"))
    })?;
    let created = account["metadata"]["creationTimestamp"].as_str().unwrap_or("-");
    let own = mark(&account).unwrap_or("another program's");
    let rows = [vec![
        name.to_owned(),
        "Token".to_owned(),
        credential::account(name).user(),
        created.to_owned(),
        own.to_owned(),
    ]];
    let columns = &["NAME", "KIND", "USER", "SINCE", "MARK"];
    super::list::print(ListFormat::Table, "Credential", columns, columns.len(), &rows)
}
