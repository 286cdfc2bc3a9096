#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <memory>
#include <string>
#include <vector>
#include "core/environment.h"
namespace py = pybind11;
using namespace accel;
struct Probe {
    std::vector<u8> bytes; State s{}; TiaLog log{}; std::vector<u8> pix; Random rng; Console c; int height; u8 difficulty=0; int controllers=0;
    Probe(py::bytes rom, int kind, int first_line, int height_, int last_line, bool blanks) : bytes(), pix(2*160*height_), c{s, Rom{}, Picture{}, last_line, log, false}, height(height_) {
        std::string r = rom; bytes.assign(r.begin(), r.end()); bytes.resize(cartridge_size(CartridgeKind(kind)));
        c.rom = rom_of(bytes.data(), CartridgeKind(kind));
        c.picture = Picture{nullptr, first_line, height, blanks};
        random_seed(rng, CONSOLE_SEED);
        for (auto& b : s.ram) b = u8(random_draw(rng));
        random_draw(rng);
    }
    void reset() { centre_controllers(s, Controllers(controllers)); c.reset(u8(25 + random_draw(rng) % 75)); }
    void draw() { random_draw(rng); }
    void frame(int action, int sw) { set_controllers(s, action, Controllers(controllers)); set_switches(s, sw, difficulty); c.run_frame(pix.data(), true); }
    py::list trace(int action, int sw) { py::list out; set_controllers(s, action, Controllers(controllers)); set_switches(s, sw, difficulty);
        c.run_frame(pix.data(), true, [&](const Console& k) { u32 pc=k.s.cpu.pc; auto rd=[&](u32 a)->u8{ if(!(a&0x1000)) return (a&0x280)==0x80? k.s.ram[a&0x7f]:0; return k.rom.kind==CART_FE? k.rom.bytes[(a&0x2000?0:0x1000)+(a&0xfff)] : k.rom.bytes[k.s.cartridge.slice[(a&0xfff)>>10]+(a&0x3ff)];};
            out.append(py::make_tuple(k.s.cycle, (k.s.cycle*3-k.s.tia.frame_clock)/228, (k.s.cycle*3-k.s.tia.frame_clock)%228/3, pc, rd(pc), rd(pc+1), rd(pc+2), k.s.cpu.a, k.s.cpu.x, k.s.cpu.y, k.s.cpu.sp)); });
        return out; }
    py::bytes ram() { return py::bytes((const char*)s.ram, 128); }
    py::array_t<u8> screen() { py::array_t<u8> a({height,160}); memcpy(a.mutable_data(), pix.data()+ (s.odd_frame? height*160:0), height*160); return a; }
};
PYBIND11_MODULE(_core, m) {
    py::class_<Probe>(m, "Probe").def(py::init<py::bytes,int,int,int,int,bool>()).def("reset",&Probe::reset).def("draw",&Probe::draw).def("frame",&Probe::frame).def("ram",&Probe::ram).def("trace",&Probe::trace).def("screen",&Probe::screen)
    .def_property_readonly("cycle",[](Probe&p){return p.s.cycle;}).def_property_readonly("frame_clock",[](Probe&p){return p.s.tia.frame_clock;})
    .def_property_readonly("pos",[](Probe&p){return py::make_tuple(p.s.tia.pos[0],p.s.tia.pos[1],p.s.tia.pos[2],p.s.tia.pos[3],p.s.tia.pos[4]);})
    .def_property_readonly("pc",[](Probe&p){return p.s.cpu.pc;}).def_property_readonly("swchb",[](Probe&p){return p.s.riot.swchb;})
    .def("get",[](Probe&p){return py::bytes((const char*)&p.s,sizeof(State));}).def("set",[](Probe&p,py::bytes b){std::string t=b; memcpy(&p.s,t.data(),sizeof(State)); p.log.count=0;})
    .def("rng",[](Probe&p){return py::bytes((const char*)&p.rng,sizeof(Random));}).def("setrng",[](Probe&p,py::bytes b){std::string t=b; memcpy(&p.rng,t.data(),sizeof(Random));})
    .def("setram",[](Probe&p,int a,int v){p.s.ram[a]=v;}).def_readwrite("controllers",&Probe::controllers).def_readwrite("difficulty",&Probe::difficulty)
    .def("setpaddle",[](Probe&p,int i,int v){p.s.paddle[i]=v;})
    .def_property_readonly("cx",[](Probe&p){return p.s.tia.collisions;});
}
