"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");

  function dressed(layout) {
    const ink = dark.matches ? "#e6eaed" : "#1d2327";
    const line = dark.matches ? "#333c42" : "#dfe3e6";
    const all = {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: ink, family: "system-ui, sans-serif", size: 13 },
      margin: { l: 60, r: 16, t: layout.updatemenus ? 56 : 16, b: 48 },
      hoverlabel: { font: { family: "system-ui, sans-serif" } },
      legend: { orientation: "h", y: -64 / layout.height, yanchor: "top" },
      ...structuredClone(layout),
    };
    for (const name of Object.keys(all).filter((name) => /^[xy]axis/.test(name))) {
      all[name] = { automargin: true, ...all[name], gridcolor: line, zerolinecolor: line, linecolor: line };
    }
    for (const menu of all.updatemenus || []) {
      menu.bgcolor = dark.matches ? "#333c42" : "#eef1f3";
      menu.font = { color: dark.matches ? "#9aa5ad" : ink };
    }
    return all;
  }

  function draw() {
    for (const place of document.querySelectorAll(".chart")) {
      const figure = figures[place.dataset.figure];
      const data = structuredClone(figure.data);
      for (const one of data) if (one.type === "heatmap") one.reversescale = dark.matches;
      Plotly.react(place, data, dressed(figure.layout), {
        displayModeBar: false,
        responsive: true,
      });
    }
  }

  draw();
  dark.addEventListener("change", draw);
})();
