//! `fedgate cells credential`: the cell's account on the hub.

use super::{
    args::{CredentialAction, CredentialArgs, ListFormat},
    change::{Verb, mark, may_delete},
    credential,
    drain::find,
    error::foreign,
    executor::Executor,
    file::hand_out,
    list::print,
    plane::Plane,
    registration::member_mark,
    rotation,
};
use fedgate_terminal::{
    error::{Error, Kind},
    write::say,
};

/// Runs the command.
pub(super) async fn run(args: &CredentialArgs) -> Result<(), Error> {
    let hub = super::open_hub(&args.cell.hub).await?;
    let mut executor = Executor::new(args.write.mode(None));
    let (name, account) = (&args.cell.name, credential::account_object(&args.cell.name));
    match args.action {
        CredentialAction::Rotate => rotate(&mut executor, &hub, args).await,
        CredentialAction::Revoke => {
            let Some(account) = hub.live(&account).await? else {
                say(&format!(
                    "cell {name} has no account on the hub; nothing to change"
                ));
                return Ok(());
            };
            if !mark(&account).is_some_and(|own| may_delete(&account, own)) {
                let next = format!("kubectl -n fedgate-cells delete serviceaccount {name}");
                return Err(foreign(&format!("the account of cell {name}")).next(next));
            }
            executor.run(&hub, Verb::Delete, account).await?;
            say(&format!(
                "the tokens of cell {name} end within 10 s; a client certificate does not"
            ));
            Ok(())
        }
        CredentialAction::Show => {
            let account = hub.live(&account).await?.ok_or_else(|| {
                Error::new(Kind::NotFound, format!("cell {name} has no account on the hub"))
                    .next(format!("fedgate cells credential {name} rotate --out FILE"))
            })?;
            let created = account["metadata"]["creationTimestamp"].as_str().unwrap_or("-");
            let own = mark(&account).unwrap_or("another program's");
            let user = credential::account(name).user();
            let row = [name, "Token", &user, created, own].map(str::to_owned);
            let columns = &["NAME", "KIND", "USER", "SINCE", "MARK"];
            print(
                ListFormat::Table,
                "Credential",
                columns,
                columns.len(),
                &[row.into()],
            )
        }
    }
}

/// Karmada's credential for the cell, the cell's credential for the hub as a file, or both, as the flags say.
async fn rotate(executor: &mut Executor, hub: &Plane, args: &CredentialArgs) -> Result<(), Error> {
    let name = &args.cell.name;
    let member = super::open_cell(&args.cell).await?;
    if member.is_none() && args.out.is_none() {
        return Err(Error::usage("rotate needs to know which credential").next(
            "--cell-kubeconfig FILE for Karmada's token at the cell; --out FILE, or --out - for standard output, for the \
             cell's token of the hub",
        ));
    }
    if let Some(member) = &member {
        rotation::rotate(executor, hub, member, args).await?;
    }
    let Some(out) = &args.out else { return Ok(()) };
    let clusters = hub.clusters().await?;
    let cluster = find(name, &clusters)?;
    let mark = mark(cluster.0).map_or_else(|| member_mark(cluster.id()), str::to_owned);
    credential::ensure_account(executor, hub, name, &mark, &[]).await?;
    if !executor.writes() {
        say(&format!("would issue a token of cell {name}"));
        return Ok(());
    }
    let endpoint = args.hub_endpoint.as_deref();
    let text = credential::kubeconfig(hub, endpoint, name, args.lifetime, None).await?;
    hand_out(out, &text)
}
