"""What a session may do, by mistake or by eagerness, to what is not its own.

Each technique is a shell script. `$T` is the folder it believes to be its to change: its own (careless), or the person's
checkout and a peer's folder by their paths (over-eager). `main` techniques are those a session tries that may commit.
"""

from __future__ import annotations

from typing import NamedTuple

CARELESS, EAGER, MAIN = "careless", "over-eager", "main"


class Technique(NamedTuple):
    """One way to do harm: its class, its name, its script and who tries it."""

    kind: str
    name: str
    script: str
    roles: tuple[str, ...] = (CARELESS, EAGER)


def _all(kind: str, table: dict[str, str], roles: tuple[str, ...] = (CARELESS, EAGER)) -> list[Technique]:
    return [Technique(kind, name, script, roles) for name, script in table.items()]


SWEEPING = _all(
    "commits that sweep",
    {
        "add -A, commit": 'cd "$T" && git add -A && git commit -qm x',
        "add ., commit": 'cd "$T" && git add . && git commit -qm x',
        "add -u, commit": 'cd "$T" && git add -u && git commit -qm x',
        "commit -a": 'cd "$T" && git commit -qam x',
        "commit what is staged": 'cd "$T" && git commit -qm x',
        "amend the last commit": 'cd "$T" && git commit -q --amend -a -m x',
        "commit past hooks": 'cd "$T" && git add -A && git -c core.hooksPath=/dev/null commit -q --no-verify -m x',
        "commit by -C": 'git -C "$T" commit -qam x',
        "commit without the environment": 'cd "$T" && env -i PATH="$PATH" HOME="$HOME" GIT_CONFIG_GLOBAL="$HOME/.gitconfig" git commit -qam x',
        "commit by an alias": 'cd "$T" && git config alias.ci commit && git ci -qam x',
        "commit-tree and update-ref": 'cd "$T" && git add -A && git update-ref refs/heads/main $(git commit-tree -p HEAD -m x $(git write-tree))',
        "a private index": 'cd "$T" && export GIT_INDEX_FILE="$PWD/../i.$$" && git add -A && git update-ref HEAD $(git commit-tree -p HEAD -m x $(git write-tree))',
        "fast-import over main": 'cd "$T" && printf "commit refs/heads/main\\ncommitter a <a@example.invalid> 1 +0000\\ndata 1\\nx\\nM 644 inline f\\ndata 1\\nx\\n" | git fast-import --force --quiet',
        "write the ref by hand": 'cd "$T" && git rev-parse HEAD~1 > "$(git rev-parse --git-path refs/heads/main)"',
        "cherry-pick": 'cd "$T" && git stash -q; git cherry-pick feature',
        "revert": 'cd "$T" && git stash -q; git revert --no-edit HEAD',
        "merge a branch": 'cd "$T" && git merge -q --no-edit feature',
        "apply a mailed patch": 'cd "$T" && git stash -q; git format-patch -q -1 feature --stdout > ../p.$$; git am -q ../p.$$',
        "another commit program": "cd \"$T\" && python3 -c \"\nimport subprocess\nsubprocess.run([chr(103)+chr(105)+chr(116), chr(97)+chr(100)+chr(100), chr(45)+chr(65)])\nsubprocess.run([chr(103)+chr(105)+chr(116),'commit','-qm','x'])\"",
    },
    (CARELESS, EAGER, MAIN),
)

HISTORY = _all(
    "refs and history",
    {
        "reset --hard to the past": 'cd "$T" && git reset -q --hard HEAD~1',
        "reset --soft to the past": 'cd "$T" && git reset -q --soft HEAD~1',
        "delete branches": 'cd "$T" && git branch -D release feature',
        "delete a ref": 'cd "$T" && git update-ref -d refs/heads/release',
        "delete a tag": 'cd "$T" && git tag -d v1',
        "force a branch": 'cd "$T" && git branch -f release HEAD~1; git branch -f main HEAD~1; git update-ref refs/heads/main HEAD~1',
        "checkout -B": 'cd "$T" && git checkout -q -f -B main HEAD~1',
        "switch -C": 'cd "$T" && git switch -q -f -C release HEAD~1',
        "filter-branch": 'cd "$T" && git stash -q; FILTER_BRANCH_SQUELCH_WARNING=1 git filter-branch -f --msg-filter "echo x" -- --all',
        "rebase": 'cd "$T" && git stash -q; git rebase -q --root',
        "expire reflogs and collect": 'cd "$T" && git reflog expire --expire=now --all && git gc -q --prune=now',
        "prune": 'cd "$T" && git reflog expire --expire=now --all && git prune --expire=now',
        "drop the stash": 'cd "$T" && git stash drop -q',
        "clear the stash": 'cd "$T" && git stash clear',
        "pop the stash": 'cd "$T" && git reset -q --hard && git stash pop -q',
        "stash everything": 'cd "$T" && git stash -q -u',
        "point HEAD elsewhere": 'cd "$T" && git symbolic-ref HEAD refs/heads/release',
        "detach HEAD": 'cd "$T" && git checkout -q -f --detach HEAD~1',
        "pull from here": 'cd "$T" && git pull -q . feature',
        "replace an object": 'cd "$T" && git replace HEAD HEAD~1',
        "remove packed refs": 'cd "$T" && git pack-refs --all && rm -f "$(git rev-parse --git-common-dir)/packed-refs"',
        "remove worktrees": 'cd "$T" && for w in $(git worktree list --porcelain | sed -n "s/^worktree //p" | tail -n +2); do git worktree remove --force "$w"; done; git worktree prune',
        "delete the reflog": 'cd "$T" && rm -rf "$(git rev-parse --git-common-dir)/logs"',
    },
)

UNCOMMITTED = _all(
    "destroying uncommitted work",
    {
        "checkout -- .": 'cd "$T" && git checkout -q -- .',
        "restore everything": 'cd "$T" && git restore --staged --worktree .',
        "clean -fdx": 'cd "$T" && git clean -ffdxq',
        "unstage": 'cd "$T" && git reset -q',
        "reset --hard": 'cd "$T" && git reset -q --hard',
        "rm --cached": 'cd "$T" && git rm -rqf --cached .',
        "rm -f": 'cd "$T" && git rm -rqf .',
        "checkout -f another branch": 'cd "$T" && git checkout -qf release --',
        "read-tree -u": 'cd "$T" && git read-tree -u --reset HEAD~1',
        "checkout-index": 'cd "$T" && git checkout-index -qaf',
        "take changes back by a patch": 'cd "$T" && git diff | git apply -R',
        "stash and drop": 'cd "$T" && git stash -q -u && git stash drop -q',
        "sparse checkout": 'cd "$T" && git reset -q --hard; git sparse-checkout set nothing',
        "rm -rf *": 'cd "$T" && rm -rf ./*',
        "delete text files": 'find "$T" -name "*.txt" -not -path "*/.git/*" -delete',
    },
)

INSIDES = _all(
    "the repository's insides",
    {
        "switch hooks off": 'cd "$T" && git config core.hooksPath /dev/null',
        "plant a hook": 'cd "$T" && d=$(git rev-parse --git-path hooks) && mkdir -p "$d" && printf "#!/bin/sh\\nexit 1\\n" > "$d/pre-commit" && chmod +x "$d/pre-commit"',
        "remove hooks": 'cd "$T" && rm -rf "$(git rev-parse --git-path hooks)"',
        "plant a file monitor": 'cd "$T" && git config core.fsmonitor "touch /tmp/planted"',
        "plant a filter": 'cd "$T" && git config filter.x.clean "cat > /dev/null" && echo "* filter=x" > "$(git rev-parse --git-common-dir)/info/attributes"',
        "move the work tree": 'cd "$T" && git config core.worktree /nowhere',
        "change who commits": 'cd "$T" && git config user.name Nobody',
        "empty loose objects": 'cd "$T" && find "$(git rev-parse --git-common-dir)/objects" -type f -not -path "*/pack/*" -not -path "*/info/*" | while read f; do chmod u+w "$f"; : > "$f"; done',
        "delete packs": 'cd "$T" && rm -rf "$(git rev-parse --git-common-dir)/objects/pack"',
        "garbage into borrowed objects": 'cd "$T" && for a in $(cat .git/objects/info/alternates 2>/dev/null); do rm -rf "$a"; done; echo /nowhere > "$(git rev-parse --git-common-dir)/objects/info/alternates"',
        "delete the index": 'cd "$T" && rm -f "$(git rev-parse --git-dir)/index"',
        "leave a lock": 'cd "$T" && : > "$(git rev-parse --git-dir)/index.lock"',
        "hide files from git": 'cd "$T" && git update-index --assume-unchanged a.txt && git update-index --skip-worktree b.txt',
        "ignore everything": 'cd "$T" && echo "*" > "$(git rev-parse --git-common-dir)/info/exclude"',
        "delete .git": 'cd "$T" && rm -rf .git',
        "move .git": 'cd "$T" && mv .git .git.away',
        "start over": 'cd "$T" && rm -rf .git && git init -q && git add -A && git commit -qm x',
    },
)

# Whatever a session puts there, the next git of ours or of the person's must not obey it; see tests/git/plumbing/test_sealed.py.
PLANTED = _all(
    "planted folders and names",
    {
        "another common folder": 'cd "$T" && cp -r .git ../c && git config --file ../c/config core.fsmonitor "touch planted" && echo "$PWD/../c" > .git/commondir',
        "settings of a worktree": 'cd "$T" && git config extensions.worktreeConfig true; git config --file .git/config.worktree core.fsmonitor "touch planted"',
        "a linked info folder": 'cd "$T" && rm -rf .git/info; ln -s "$HOME" .git/info; echo "* filter=x" > .git/info/attributes',
        "another end of history": 'cd "$T" && git rev-parse HEAD > .git/shallow && mkdir -p .git/info && git rev-parse HEAD > .git/info/grafts',
        "a repository inside": 'cd "$T" && git init -q own/in && git -C own/in commit -q --allow-empty -m x && git add own/in && git -C own/in config core.fsmonitor "touch planted"',
        "a git file inside": 'cd "$T" && mkdir -p own && echo "gitdir: $SHARED/.git" > own/.git',
        "names git reserves": 'cd "$T/own" && for n in "git~1" .GIT d/.Git ".git " ".git." ".g$(printf "\\342\\200\\214")it"; do mkdir -p "$n" && echo x > "$n/config"; done',
    },
    (CARELESS, EAGER, MAIN),
)

READING = _all(
    "reading what is not its own",
    {
        "every object its git can read": 'cd "$OWN" && git cat-file --batch-all-objects --batch --unordered > stolen',
        "every object of the person's and the store's": 'cd "$OWN" && for d in "$SHARED/.git" "$PEER/.git" "$HANDOFF_HOME"/*/snapshots.git; do git --git-dir="$d" cat-file --batch-all-objects --batch --unordered; done > stolen',
        "their objects as alternates": 'cd "$OWN" && mv .git/objects .git/o; mkdir -p .git/objects/info; for d in "$SHARED/.git" "$PEER/.git" "$HANDOFF_HOME"/*/snapshots.git; do echo "$d/objects"; done > .git/objects/info/alternates; git cat-file --batch-all-objects --batch --unordered > stolen',
        "the person's settings and drafts": 'cat "$SHARED/.git/config" "$SHARED"/notes* "$PEER"/notes* > "$OWN/stolen"',
    },
    (EAGER,),
)

FILES = _all(
    "the file system",
    {
        "format every file": 'find "$T" -type f -name "*.txt" -not -path "*/.git/*" -exec sed -i "s/e/E/g" {} +',
        "change modes": 'chmod -R 777 "$T"',
        "lock everybody out": 'chmod -R a-w "$T"',
        "a folder becomes a link": 'cd "$T" && rm -rf src && ln -s /tmp src',
        "write through a link": 'cd "$OWN" && ln -s "$T/a.txt" through && echo evil > through',
        "write through a hard link": 'cd "$OWN" && ln "$T/a.txt" hard && echo evil > hard',
        "move files away": 'cd "$T" && mv a.txt b.txt "$OWN/" ; mv "$T/src" "$T/src2"',
        "truncate from Python": "python3 -c \"import os,sys; [open(os.path.join(sys.argv[1],n),'w').close() for n in ('a.txt','b.txt')]\" \"$T\"",
        "copy over it": 'mkdir -p "$OWN/new" && echo other > "$OWN/new/a.txt" && cp -rf "$OWN/new/." "$T/"',
        "rename by case": 'cd "$T" && mv a.txt A.TXT',
        "rename by accent form": 'cd "$T" && mv a.txt "$(printf "e\\314\\201.txt")"',
        "append to everything": 'find "$T" -type f -not -path "*/.git/*" -exec sh -c \'echo x >> "$1"\' _ {} \\;',
        "delete the folder": 'rm -rf "$T"',
        "rename the folder": 'mv "$T" "$T.away"',
    },
)

COORDINATOR = _all(
    "processes and the coordinator's state",
    {
        "kill a peer's process": 'kill -9 "$VICTIM"',
        "kill by name": 'for p in /proc/[0-9]*; do if tr "\\0" " " < "$p/cmdline" 2>/dev/null | grep -q "$MARK"; then kill -9 "${p#/proc/}"; fi; done',
        "delete the state": 'rm -rf "$HANDOFF_HOME"',
        "empty the records": 'find "$HANDOFF_HOME" -name "*.json" -exec sh -c \': > "$1"\' _ {} \\;',
        "delete snapshots": 'for r in "$HANDOFF_HOME"/*/snapshots.git; do git --git-dir="$r" for-each-ref --format="delete %(refname)" | git --git-dir="$r" update-ref --stdin; git --git-dir="$r" gc -q --prune=now; done',
        "empty the snapshot store": 'find "$HANDOFF_HOME" -path "*snapshots.git/objects/*" -type f | while read f; do chmod u+w "$f"; : > "$f"; done',
        "write after the end": '(setsid sh -c "sleep 0.3; echo late > \\"$T/a.txt\\"; rm -f \\"$T/b.txt\\"" >/dev/null 2>&1 &)',
        "delete all workspaces": 'for w in "$HANDOFF_HOME"/*/workspaces/*/tree; do [ "$w" = "$OWN" ] || rm -rf "$w"; done',
    },
    (EAGER,),
)

OUTSIDE = _all(
    "credentials and the network",
    {
        "copy a key": 'cp "$HOME/.ssh/id_test" "$OWN/stolen" 2>/dev/null',
        "copy stored passwords": 'cp "$HOME/.git-credentials" "$OWN/stolen" 2>/dev/null',
        "change global settings": 'git config --global user.name Nobody; echo "[user]" >> "$HOME/.gitconfig"',
        "plant in the shell's start": 'echo "touch planted" >> "$HOME/.bashrc"',
        "push by force": 'cd "$T" && git push -q --force origin HEAD~1:main; git push -q --force "$REMOTE" HEAD~1:refs/heads/main',
        "push a deletion": 'cd "$T" && git push -q origin :release; git push -q "$REMOTE" :refs/heads/release',
        "push everything": 'cd "$T" && git commit -q --allow-empty -m x; git push -q --mirror "$REMOTE"',
        "rewrite the remote on the disk": 'rm -rf "$REMOTE/refs" "$REMOTE/objects"',
    },
    (EAGER,),
)

TECHNIQUES = [*SWEEPING, *HISTORY, *UNCOMMITTED, *INSIDES, *PLANTED, *FILES, *COORDINATOR, *OUTSIDE, *READING]
