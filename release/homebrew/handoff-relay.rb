# `make release` writes this formula to dist/ with the version and the digest of the source archive that it built.
class HandoffRelay < Formula
  include Language::Python::Virtualenv

  desc "Relay between AI coding sessions: nothing lost, done means checked"
  homepage "https://github.com/handoff-relay/handoff"
  url "https://github.com/handoff-relay/handoff/releases/download/vVERSION/handoff_relay-VERSION.tar.gz"
  sha256 "DIGEST"
  license "MIT"

  depends_on "git"
  depends_on "python@3.13"

  def install
    virtualenv_create(libexec, "python3.13")
    system libexec/"bin/python", "-m", "ensurepip"
    system libexec/"bin/python", "-m", "pip", "install", buildpath
    bin.install_symlink libexec/"bin/handoff"
    generate_completions_from_executable(bin/"handoff", "completion", shells: [:bash, :zsh, :fish])
  end

  test do
    system "git", "init", "-q", testpath
    system bin/"handoff", "task", "add", "first", "Do it."
    assert_match "first", shell_output("#{bin}/handoff task list")
  end
end
