//! Tests of the host: Karmada's rules and hostile scripts.

use super::{Host, LuaError, Operation, check_entry_point};
use serde_json::{Value, json};
use std::time::Duration;

/// Runs the body of a function `F(a, b)`.
fn call(body: &str, args: &[Value]) -> Result<Value, LuaError> {
    Host::new().call(&format!("function F(a, b)\n{body}\nend"), "F", args)
}

fn raised(body: &str) -> String {
    call(body, &[]).unwrap_err().to_string()
}

#[test]
fn json_goes_in_and_comes_back() {
    let value = json!({"a": [1, 2.5, true, "x"], "b": {"c": 9_007_199_254_740_993_u64}, "n": null});
    let back = call("return a", std::slice::from_ref(&value)).unwrap();
    // Every number becomes a float64 in Lua, and null becomes absent.
    assert_eq!(
        back,
        json!({"a": [1, 2.5, true, "x"], "b": {"c": 9_007_199_254_740_992_u64}})
    );
    assert_eq!(call("return #a", &[json!([1, null, 2])]).unwrap(), json!(2));
}

#[test]
fn libraries_are_karmadas() {
    for name in [
        "io",
        "debug",
        "coroutine",
        "gcinfo",
        "os.execute",
        "os.getenv",
        "table.foreach",
        "os.exit",
    ] {
        assert_eq!(
            call(&format!("return tostring({name})"), &[]).unwrap(),
            "nil",
            "{name}"
        );
    }
    for call in [
        "collectgarbage()",
        "dofile()",
        "getfenv()",
        "getmetatable({})",
        "load()",
        "loadfile()",
        "loadstring('')",
        "rawequal(1, 1)",
        "rawget({}, 1)",
        "rawset({}, 1, 1)",
        "setfenv()",
        "setmetatable({}, {})",
        "module('x')",
        "newproxy()",
        "string.rep('x', 2)",
        "string.gsub('x', 'x', 'y')",
        "string.dump(F)",
        "('x'):rep(9)",
        "package.loadlib('x', 'y')",
    ] {
        assert!(
            raised(&format!("return {call}")).contains("not supported"),
            "{call}"
        );
    }
    let text =
        "return string.format('%s %d', 'a', 3) .. table.concat({unpack({1, 2})}, ',') .. math.max(1, 2)";
    assert_eq!(call(text, &[]).unwrap(), "a 31,22");
    assert_eq!(call("return os.date('!%Y', 0)", &[]).unwrap(), "1970");
}

#[test]
fn results_that_karmada_cannot_encode_are_refused() {
    for (body, expected) in [
        ("local t = {} return {t, t}", "reached twice"),
        ("local t = {} t.t = t return t", "reached twice"),
        ("return {1, nil, 3}", "holes"),
        ("return {1, a = 2}", "mixes"),
        ("return {[true] = 1}", "key of type"),
        ("return {F}", "function"),
        ("return 0/0", "JSON number"),
    ] {
        assert!(raised(body).contains(expected), "{body}: {}", raised(body));
    }
}

#[test]
fn empty_tables_follow_karmadas_rule() {
    let host = Host::new();
    let reflect =
        |body: &str| host.reflect_status(&format!("function ReflectStatus(o) {body} end"), &json!({}));
    assert_eq!(reflect("return {}").unwrap(), json!({}));
    assert_eq!(
        reflect("return {a = {}, b = {c = {}}, d = {1}}").unwrap(),
        json!({"b": {}, "d": [1]})
    );
    assert_eq!(
        reflect("return {l = {{}, {a = 1}}}").unwrap(),
        json!({"l": [{"a": 1}]})
    );
    assert!(
        reflect("return {l = {{}, {a = {}}}}")
            .unwrap_err()
            .to_string()
            .contains("random order")
    );
    assert!(
        reflect("return nil")
            .unwrap_err()
            .to_string()
            .contains("must return a table")
    );

    let desired = json!({"kind": "X", "spec": {"map": {}, "list": [], "items": [{"m": {}}]}});
    let script = "function Retain(d, o) d.spec.new = {} d.spec.kept = o.spec.kept d.spec.more = o.spec.more return d end";
    let retained = host
        .retain(script, &desired, &json!({"spec": {"kept": {}, "more": [{}]}}))
        .unwrap();
    let expected =
        json!({"kind": "X", "spec": {"map": {}, "list": [], "items": [{"m": {}}], "kept": {}, "more": [{}]}});
    assert_eq!(retained, expected);
}

#[test]
fn items_leave_out_zero_values() {
    let script = "function AggregateStatus(d, items)
        d.status = {applied = tostring(items[1].applied), message = tostring(items[1].appliedMessage)}
        return d
    end";
    let items = [json!({"clusterName": "a", "applied": false, "appliedMessage": ""})];
    let object = Host::new()
        .aggregate_status(script, &json!({"kind": "X"}), &items)
        .unwrap();
    assert_eq!(object["status"], json!({"applied": "nil", "message": "nil"}));
    let script = "function AggregateStatus(d, items) d.status = {t = type(items)} return d end";
    let object = Host::new()
        .aggregate_status(script, &json!({"kind": "X"}), &[])
        .unwrap();
    assert_eq!(object["status"]["t"], "nil");
}

#[test]
fn dependencies_are_checked_sorted_and_taken_once() {
    let script = "function GetDependencies(d) return {
        {apiVersion = 'v1', kind = 'Secret', namespace = 'n', name = 'b'},
        {apiVersion = 'v1', kind = 'ConfigMap', namespace = 'n', name = 'c'},
        {apiVersion = 'v1', kind = 'Secret', namespace = 'n', name = 'b'}} end";
    let list = Host::new().get_dependencies(script, &json!({})).unwrap();
    let names: Vec<&str> = list.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["c", "b"]);
    let script = "function GetDependencies(d) return {{kind = 'Secret'}} end";
    assert!(Host::new().get_dependencies(script, &json!({})).is_err());
    let script = "function GetDependencies(d) return {} end";
    assert_eq!(Host::new().get_dependencies(script, &json!({})).unwrap(), []);
}

#[test]
fn a_state_is_re_used_and_globals_stay() {
    let host = Host::new();
    host.call("left = 7 function F() end", "F", &[]).unwrap();
    assert_eq!(
        host.call("function G() return left end", "G", &[]).unwrap(),
        json!(7)
    );
    // The linter checks the entry point in a new state for this reason.
    assert_eq!(host.call("function Misspelt() end", "G", &[]).unwrap(), json!(7));
    let error = check_entry_point("function Misspelt() end", Operation::Retention).unwrap_err();
    assert_eq!(
        error,
        LuaError::EntryPoint {
            name: "Retain".to_owned(),
            found: "nil"
        }
    );
}

#[test]
fn errors_name_their_line() {
    assert_eq!(call("\nlocal x = = 1", &[]).unwrap_err().line(), Some(3));
    let error = call("\nlocal x = a.b.c", &[]).unwrap_err();
    assert_eq!(error.line(), Some(3), "{error}");
}

/// Each body fails with the error, and the host stays usable.
fn hostile(limit: Duration, error: &LuaError, bodies: &[&str]) {
    let host = Host::with_limit(limit);
    for body in bodies {
        let got = host
            .call(&format!("function F() {body} end"), "F", &[])
            .unwrap_err();
        assert_eq!(got, *error, "{body}");
        assert_eq!(
            host.call("function F() return 1 end", "F", &[]).unwrap(),
            json!(1),
            "after {body}"
        );
    }
}

#[test]
fn endless_scripts_end() {
    hostile(
        Duration::from_millis(50),
        &LuaError::Timeout,
        &[
            "while true do end",
            "while true do pcall(function() while true do end end) end",
            "while true do pcall(error) end",
            "local s = 'xxxxxxxx' while true do pcall(function() s = s .. s .. s end) end",
            "pcall(function() while true do end end) while true do end",
            "xpcall(function() while true do end end, function() while true do end end)",
            "while true do xpcall(error, function() pcall(error) end) end",
            "local t = {} for i = 1, 9 do table.insert(t, -2e9, i) end while true do end",
            "table.sort({3, 2, 1}, function() while true do end end)",
            "for s in string.gmatch('x', '') do while true do end end",
        ],
    );
}

#[test]
fn memory_bombs_end() {
    hostile(
        Duration::from_secs(5),
        &LuaError::Memory,
        &[
            "local t = {} for i = 1, 1e9 do t[i] = {i} end",
            "local s = 'xxxxxxxx' while true do s = s .. s end",
            "local t = {} for i = 1, 1e6 do t[i] = 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxx' end return table.concat(t)",
        ],
    );
}

#[test]
fn other_bombs_are_errors() {
    for (body, expected) in [
        (
            "local function f(n) return 1 + f(n + 1) end return f(1)",
            "stack overflow",
        ),
        (
            "local s = 'x' for i = 1, 20 do s = s .. s end return s:upper()",
            "exceeds the maximum",
        ),
        (
            "local s = 'x' for i = 1, 20 do s = s .. s end return s:find('y')",
            "exceeds the maximum",
        ),
        ("return unpack({}, 1, 1e7)", "too many results"),
        ("error({})", ""),
    ] {
        assert!(raised(body).contains(expected), "{body}: {}", raised(body));
    }
    let deep = format!("return {}1{}", "(".repeat(1000), ")".repeat(1000));
    assert!(matches!(call(&deep, &[]).unwrap_err(), LuaError::Syntax { .. }));
}

#[test]
fn texts_are_searched_as_in_gopher_lua() {
    for (expression, expected) in [
        ("('x'):find('')", json!([1, 0])),
        ("('hello world'):find('o w')", json!([5, 7])),
        ("('hello'):find('l', 4)", json!([4, 4])),
        ("('hello'):find('l', -2)", json!([4, 4])),
        ("('a.b'):find('.', 1, true)", json!([2, 2])),
        ("('a.b'):find('x', 9, true)", json!([])),
        (
            "('key = value'):match('^(%w+)%s*=%s*(%w+)$')",
            json!(["key", "value"]),
        ),
        ("('abc'):match('()b()')", json!([2, 3])),
        ("select('#', ('abc'):match('z'))", json!([0])),
        ("('[a-z]'):match('^[%[a%-]+')", json!(["[a-"])),
        ("('<<a>>'):match('<(.-)>')", json!(["<a"])),
        ("('aaa'):match('a-b?$')", json!(["aaa"])),
        ("('THE (quick) fox'):find('%((%a+)%)')", json!([5, 11, "quick"])),
        ("('%d'):match('%%d')", json!(["%d"])),
        ("('a]b'):match('[]]')", json!(["]"])),
        ("('a-b'):match('[a-]+')", json!(["a-"])),
        ("('12ab'):match('[^%d]+')", json!(["ab"])),
        ("('f(a(b))'):match('%b()')", json!(["(a(b))"])),
        ("('abab'):match('(ab)%1')", json!(["ab"])),
        (
            "tostring(1e15), tostring(0.1), tostring(1/3), tostring(1e21), tostring(-0.5e-7), tostring(true)",
            json!([
                "1000000000000000",
                "0.1",
                "0.3333333333333333",
                "1e+21",
                "-5e-08",
                "true"
            ]),
        ),
    ] {
        assert_eq!(
            call(&format!("return {{{expression}}}"), &[]).unwrap(),
            expected,
            "{expression}"
        );
    }
    for (pattern, text, expected) in [
        ("%w+", "one two", "one,two,"),
        ("(%w)=(%w)", "a=b c=d", "a:b,c:d,"),
        ("^a", "aXaX", "a,"),
        ("x*", "axb", ",x,,,"),
    ] {
        let body = format!(
            "local s = '' for a, b in ('{text}'):gmatch('{pattern}') do s = s .. a .. (b and ':' .. b or '') .. ',' end return s"
        );
        assert_eq!(call(&body, &[]).unwrap(), expected, "{pattern}");
    }
    for bad in ["(a", "a)", "[a", "%1", "(%1)"] {
        assert!(
            call(&format!("return ('a'):find('{bad}')"), &[]).is_err(),
            "{bad}"
        );
    }
}

#[test]
fn the_stack_is_as_deep_as_karmadas() {
    let recurse = |depth: u32| {
        let body = "local function r(n) if n == 0 then return true end local x = r(n - 1) return x end";
        call(&format!("{body} return r({depth})"), &[])
    };
    assert_eq!(recurse(250).unwrap(), true);
    assert!(recurse(300).unwrap_err().to_string().contains("stack overflow"));
    // Tail calls take no frame, and caught errors leave no frame behind.
    let tail = "local function r(n) if n == 0 then return true end return r(n - 1) end return r(1e4)";
    assert_eq!(call(tail, &[]).unwrap(), true);
    let caught = "for i = 1, 2000 do pcall(function() error('x') end) end return true";
    assert_eq!(call(caught, &[]).unwrap(), true);
}

#[test]
fn a_script_that_requires_a_module_of_karmadas_own_is_refused() {
    let said = raised("return require('kube')");
    assert!(said.contains("module kube not found"), "{said}");
    assert_eq!(call("return require('string').lower('X')", &[]).unwrap(), "x");
}
