// Light, dark, or as the machine says: chosen before anything is drawn, kept in this browser. A classic script, so that nothing flashes.

(() => {
  const ORDER = ["auto", "light", "dark"];
  const KEY = "dstream.theme";
  let chosen = "auto";
  try {
    chosen = ORDER.includes(localStorage.getItem(KEY)) ? localStorage.getItem(KEY) : "auto";
  } catch {
    // Without storage it is chosen again on each visit.
  }
  document.documentElement.dataset.theme = chosen;
  window.dstreamTheme = {
    chosen: () => document.documentElement.dataset.theme,
    next() {
      const theme = ORDER[(ORDER.indexOf(this.chosen()) + 1) % ORDER.length];
      document.documentElement.dataset.theme = theme;
      try {
        localStorage.setItem(KEY, theme);
      } catch {
        // As above.
      }
      return theme;
    },
  };
})();
