// Offers the other versions of the guide. `cargo xtask site` lists them in versions.json, beside the folder of this
// version. Without that file, for example under `mdbook serve`, there is nothing to choose.
(async () => {
  const root = new URL(path_to_root || "./", location.href);
  const answer = await fetch(new URL("../versions.json", root)).catch(() => null);
  if (!answer?.ok) return;
  const { versions } = await answer.json();
  const own = root.pathname.split("/").at(-2);
  const page = location.pathname.slice(root.pathname.length);
  const choice = document.createElement("select");
  choice.setAttribute("aria-label", "Version of the guide");
  for (const version of versions) choice.add(new Option(version, version, false, version === own));
  choice.addEventListener("change", async () => {
    const home = new URL(`../${choice.value}/`, root);
    const same = new URL(page, home);
    const found = await fetch(same, { method: "HEAD" }).catch(() => null);
    location.href = found?.ok ? same : home;
  });
  document.querySelector(".right-buttons")?.prepend(choice);
})();
