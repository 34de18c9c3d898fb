//! Tests of the flags: defaults, formats of values, consistency.

use super::*;
use clap::Parser;
use fedgate_engine::plane::discovery::MiloForm;
use std::path::Path;

fn parse(arguments: &[&str]) -> Result<GatewayArgs, String> {
    #[derive(Debug, Parser)]
    struct Gateway {
        #[command(flatten)]
        args: GatewayArgs,
    }
    let given = ["fedgate", "--hub-kubeconfig", "/hub"].iter().chain(arguments);
    let args = Gateway::try_parse_from(given).map_err(|e| e.to_string())?.args;
    args.check().map_err(|e| e.to_string())?;
    Ok(args)
}

#[test]
fn defaults_are_those_of_the_contract() {
    let config = parse(&[]).unwrap();
    assert_eq!(config.projects.project_mode, ProjectMode::Single);
    assert_eq!(config.projects.project_kubeconfig, None);
    let settings = config.settings();
    assert_eq!(settings.city_linger, Duration::from_mins(1));
    assert_eq!(settings.status_interval, Duration::from_millis(250));
    assert_eq!(settings.release_after, None);
    assert_eq!(
        config.lease(),
        Some(("fedgate-system".to_owned(), "fedgate-gateway".to_owned()))
    );
    assert!(settings.manage_interpreters && !settings.require_owner && !config.process.rules().plain_http);
    assert_eq!(config.process.workers, 32);
}

#[test]
fn values_are_read_as_people_write_them() {
    let config = parse(&[
        "--release-after",
        "1h30m",
        "--leader-elect=false",
        "--require-owner",
    ])
    .unwrap();
    let settings = config.settings();
    assert_eq!(settings.release_after, Some(Duration::from_mins(90)));
    assert_eq!(config.lease(), None);
    assert!(settings.require_owner);
    for bad in ["0s", "-1s", "soon", "5"] {
        assert!(
            parse(&[&format!("--city-linger={bad}")])
                .unwrap_err()
                .contains("duration"),
            "{bad}"
        );
    }
}

#[test]
fn a_mode_and_its_flags_go_together() {
    let error = parse(&["--project-mode", "directory"]).unwrap_err();
    assert!(
        error.contains("--project-directory") && error.contains("FEDGATE_PROJECT_DIRECTORY"),
        "{error}"
    );
    let error = parse(&["--project-directory", "/d"]).unwrap_err();
    assert!(error.contains("--project-mode directory"), "{error}");
    assert!(parse(&["--project-mode", "secrets", "--project-secrets-namespace", "n"]).is_ok());
}

#[test]
fn milo_needs_nothing_but_its_name_and_takes_a_template() {
    let milo = |more: &[&str]| parse(&[&["--project-mode=milo"], more].concat());
    let read = |more: &[&str]| {
        let given = milo(more).unwrap().projects;
        assert_eq!(given.project_mode, ProjectMode::Milo);
        assert_eq!(given.discovery_kubeconfig, None);
        let path = |path: Option<&Path>| path.map(|path| path.display().to_string());
        (
            path(given.project_kubeconfig.as_deref()),
            given.form(),
            given.project_selector.unwrap_or_default(),
        )
    };
    assert_eq!(read(&[]), (None, MiloForm::Projects, String::new()));
    let more = [
        "--project-kubeconfig=/p",
        "--internal-service-discovery",
        "--project-selector=hub=eu",
    ];
    assert_eq!(
        read(&more),
        (
            Some("/p".to_owned()),
            MiloForm::ControlPlanes,
            "hub=eu".to_owned()
        )
    );
    for (flag, of) in [
        ("--discovery-kubeconfig=/d", "milo"),
        ("--internal-service-discovery", "milo"),
        ("--project-selector=a=b", "milo"),
    ] {
        let error = parse(&[flag]).unwrap_err();
        assert!(error.contains(&format!("--project-mode {of}")), "{error}");
    }
    assert!(
        milo(&["--project-directory=/d"])
            .unwrap_err()
            .contains("--project-mode directory")
    );
}

#[test]
fn what_tells_of_tenants_is_for_this_machine_or_behind_a_token() {
    for open in ["0.0.0.0:8080", "[::]:8080", "192.0.2.1:1"] {
        let error = parse(&["--admin-address", open]).unwrap_err();
        for part in [
            open,
            "--admin-token-file",
            "FEDGATE_ADMIN_TOKEN_FILE",
            "127.0.0.1:8080",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let config = parse(&["--admin-address", open, "--admin-token-file", "/token"]).unwrap();
        assert_eq!(config.process.admin_token_file, Some("/token".into()));
    }
    for here in ["127.0.0.1:0", "127.9.9.9:1", "[::1]:1"] {
        assert_eq!(
            parse(&["--admin-address", here])
                .unwrap()
                .process
                .admin_token_file,
            None
        );
    }
}

#[test]
fn a_size_is_read_in_bytes_and_has_bounds() {
    for (text, bytes) in [("4096", 4_096), ("64Ki", 65_536), ("256Ki", 262_144)] {
        assert_eq!(super::size(text), Ok(bytes));
    }
    for text in ["", "Ki", "0", "-1", "262145", "1Mi", "99999999999", "4k"] {
        assert!(super::size(text).is_err(), "{text}");
    }
}
